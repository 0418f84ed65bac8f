// SPDX-License-Identifier: Apache-2.0
// The first values of a model's parameters, drawn in their shards under each random policy, against one
// device; and drawn rank by rank, as on a cluster before the first step.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/random/random_policy.h"
#include "engine/values/device_mesh.h"
#include "suites/train/language_model.h"
#include "suites/train/team.h"

namespace lockstep::dashboard {
class Recorder;
}

namespace lockstep::suites {

struct InitOptions {
  std::string model = "llama", preset = "tiny";
  c10::ScalarType dtype = c10::ScalarType::Float;
  uint64_t seed = 0;
  DeviceModel device;
  DeviceMesh mesh;
  std::vector<RandomPolicy> policies;  // beside the single device's, which is always drawn
  Team team{};                         // who draws the shards
};

// What the ranks drew of the model's random parameters; each element is counted once, whoever replicates it.
struct InitStatistics {
  std::string policy;  // of the single device itself: "one device"
  int64_t elements = 0;
  int64_t different = 0;  // elements whose bits are not the single device's
  double largest = 0;     // distance from it
  double mean = 0, deviation = 0;
  int64_t shards = 0;    // pieces of parameters that are cut, empty ones not counted
  int64_t repeated = 0;  // of them, those that hold the bits of an earlier rank's piece
};

// One rank by itself: what it holds, the most that it ever held, and how long it took.
struct InitRank {
  int64_t rank = 0;
  int64_t bytes = 0, buffer_bytes = 0, peak_bytes = 0;  // of parameters, of buffers, of all tensors at once
  double seconds = 0;
  std::vector<std::string> different{};  // parameters that are not the single device's part
};

struct InitReport {
  int64_t parameters = 0, drawn = 0;  // of the model; those that are random
  InitStatistics reference;
  std::vector<InitStatistics> policies;
  std::vector<InitRank> ranks;  // under the single device's policy

  // Under the single device's policy not one bit differs, and each rank alone holds its part.
  bool passed() const;
};

struct InitObserver {
  std::function<void(const InitRank&)> on_rank = [](const InitRank&) {};
};

// Law: under the single device's policy each rank holds its part of what one device draws, which the oracle
// simulates, whatever the mesh. Holds at no time more than one module's parameters twice over, or one rank's;
// along fsdp, where shards have their memory from the start, all of them too, for each policy. Throws Error
// for an unknown preset, or a mesh dimension that is none of kMeshDims. All of a team call it; where others
// lead, the report says nothing.
InitReport initialise(const InitOptions& options, const InitObserver& observer = {});

std::string markdown_table(const InitReport& report);
// As measurements: "init llama tiny tp:8 | offset-based | elements that differ".
void record(const InitOptions& options, const InitReport& report, dashboard::Recorder& recorder);

}  // namespace lockstep::suites
