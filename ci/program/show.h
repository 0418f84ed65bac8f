// SPDX-License-Identifier: Apache-2.0
// The answers of `lockstep show`, as text and as JSON. The JSON keys are documented in ci/program/README.md
// and stable.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/fsdp/planner.h"
#include "suites/fsdp/model_table.h"

namespace lockstep::program {

// Of `show buffer --step`: what fully_shard is told, and what of the step is asked.
struct StepRequest {
  bool on = false;
  int64_t replicas = 1, prefetch = 0;
  std::string param_dtype, reduce_dtype;  // "": as parameters are, as they are gathered
  std::string reshard_after_forward = "true";
  int64_t tokens = 4096;  // of a rank
  std::string scaling;    // "weak", "strong"; "": not asked
  bool calibrate = false;
};

// What the command line said, as text; each answer parses what it needs.
struct ShowRequest {
  std::string shape, placements, to, op;
  bool table = false;  // of a layout: which ranks hold what
  std::string mesh = "1", to_mesh, dtype, device = "132x2048";
  uint64_t seed = 0, offset = 0;
  std::map<std::string, std::string> arguments;  // of a random operator, by name
  std::string stride, at;
  int64_t first = -1;  // how many values to print; negative: all
  std::vector<std::string> files;
  std::string path;  // of a checkpoint, or of a file with a plan
  bool verify = false;
  std::string model, tensors;  // of a buffer: one of them; of a plan the model
  std::string preset = "tiny";
  bool hooks = false;  // of a plan: what they do to each module
  fsdp::PlanOptions buffer;
  int64_t block_rows = 1;
  std::string block_tile;  // or this, "128x128"
  bool dense_too = false;
  StepRequest step;
};

struct Shown {
  std::string text;
  nlohmann::json json;
};

Shown show_layout(const ShowRequest& request);
Shown show_route(const ShowRequest& request);
Shown show_rules(const ShowRequest& request);
Shown show_random(const ShowRequest& request);
Shown show_buffer(const ShowRequest& request);
Shown show_step(const ShowRequest& request);
Shown show_flight(const ShowRequest& request);
Shown show_shards(const ShowRequest& request);
Shown show_plan(const ShowRequest& request);

// Of a buffer: "elements:granularity,…".
std::vector<fsdp::BlockTensor> parse_tensors(const std::string& text);
// What --block-rows, --block-tile and --dense-too say.
suites::Coarse coarse_of(const ShowRequest& request);

}  // namespace lockstep::program
