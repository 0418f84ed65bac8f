// SPDX-License-Identifier: Apache-2.0
// lockstep show buffer
#include <chrono>
#include <cstdio>

#include "ci/program/show.h"
#include "engine/fsdp/planner.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "suites/fsdp/model_table.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;
using fsdp::BlockTensor;

int64_t number(std::string_view text, const std::string& all) {
  const auto value = parse_integer(text);
  LOCKSTEP_CHECK(value.has_value(), "[show buffer] --tensors ", all, ": '", text, "' is no number");
  return *value;
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f%%", 100 * share);
  return text;
}

std::string proven(const fsdp::BufferPlan& plan) {
  return plan.is_least ? "" : "perhaps not the least in this order; ";
}

// The shards that have blocks: "rank 3: 5, rank 4: 5".
std::string held(const std::vector<int64_t>& units) {
  std::string text;
  for (size_t rank = 0; rank < units.size(); ++rank)
    if (units[rank] > 0) text += concat(text.empty() ? "" : ", ", "rank ", rank, ": ", units[rank]);
  return text.empty() ? "none" : text;
}

Shown of_tensors(const ShowRequest& request) {
  const auto tensors = parse_tensors(request.tensors);
  const auto plan = fsdp::plan(tensors, request.buffer);
  const auto least = fsdp::least_shard_size(tensors, request.buffer);
  constexpr int64_t kMostUnits = 1 << 22;
  const bool lists_units = std::ssize(tensors) <= kMostUnits / request.buffer.shards;
  std::string text = concat("shards of ", plan.shard_size, " elements (", proven(plan),
                            "no order has fewer than ", least, ") in the order ", fsdp::name(plan.order),
                            ", ", plan.padding(), " of ", plan.shards * plan.shard_size, " are padding");
  Json all = Json::array();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [start, end] = plan.intervals[i];
    text += concat("\ntensor ", i, ": ", start, " to ", end, ", blocks of ", tensors[i].granularity);
    if (tensors[i].period > 0) text += concat(", anew after ", tensors[i].period);
    all.push_back({{"start", start}, {"end", end}});
    if (!lists_units) continue;
    const auto units = fsdp::units(tensors[i], plan.intervals[i], plan);
    text += concat(" of ", held(units));
    all.back()["units"] = units;
  }
  if (!lists_units)
    text += concat("\nunits are not listed: those of ", tensors.size(), " tensors on ", request.buffer.shards,
                   " ranks are more than ", kMostUnits);
  return {text,
          {{"shard_size", plan.shard_size},
           {"order", fsdp::name(plan.order)},
           {"is_least", plan.is_least},
           {"least_shard_size", least},
           {"padding", plan.padding()},
           {"tensors", all}}};
}

// What blocks of so many rows do to a tensor of matrices, as experts are stored; empty: nothing.
std::string across(const suites::ModelTensor& tensor, const BlockTensor& blocks) {
  const auto& shape = tensor.shape;
  if (shape.size() < 3 || blocks.granularity == 1) return "";
  const int64_t rows = blocks.granularity / shape.back(), all = shape.end()[-2];
  if (all % rows == 0) return "";
  if (blocks.period > 0)
    return concat("tiles of ", tensor.name, " begin anew in each of its ", shape[0], " matrices: ", rows,
                  " rows do not divide ", all, ", so that the last of each have ", all % rows);
  return concat("blocks of ", tensor.name, " go on from one of its ", shape[0],
                " matrices to the next: ", rows, " rows do not divide ", all);
}

std::string blocks_text(const ShowRequest& request) {
  if (!request.block_tile.empty()) return "tiles of " + request.block_tile;
  return concat("blocks of ", request.block_rows, request.block_rows == 1 ? " row" : " rows");
}

Shown of_model(const ShowRequest& request) {
  const auto& model = suites::find_model(request.model);
  const auto coarse = coarse_of(request);
  const auto plan = suites::plan_model(model, coarse, request.buffer);
  std::string text =
      concat(model.name, " on ", request.buffer.shards, " ranks, ", blocks_text(request), ": ",
             percent(plan.padding), " padding (no order has less than ", percent(plan.least_padding), ")");
  Json groups = Json::array();
  Json notes = Json::array(), warnings = Json::array();
  for (const auto& g : plan.groups) {
    text += concat("\n", g.group->count, " x ", g.group->name, ": ", g.elements, " elements, shards of ",
                   g.plan.shard_size, " in the order ", fsdp::name(g.plan.order), ", ", percent(g.padding()));
    Json tensors = Json::array();
    const auto blocks = suites::blocks_of(model, *g.group, coarse);
    for (size_t i = 0; i < blocks.size(); ++i) {
      tensors.push_back({{"name", g.group->tensors[i].name},
                         {"shape", g.group->tensors[i].shape},
                         {"granularity", blocks[i].granularity},
                         {"period", blocks[i].period},
                         {"start", g.plan.intervals[i].start},
                         {"end", g.plan.intervals[i].end}});
      const auto note = across(g.group->tensors[i], blocks[i]);
      if (note.empty()) continue;
      text += concat("\nnote: ", note);
      notes.push_back(concat(g.group->name, ": ", note));
    }
    groups.push_back({{"name", g.group->name},
                      {"count", g.group->count},
                      {"elements", g.elements},
                      {"shard_size", g.plan.shard_size},
                      {"order", fsdp::name(g.plan.order)},
                      {"is_least", g.plan.is_least},
                      {"least_shard_size", g.least_shard_size},
                      {"padding", g.padding()},
                      {"tensors", tensors}});
    if (g.padding() <= suites::kMostPadding) continue;
    const auto said = suites::too_coarse(model, *g.group, coarse, request.buffer);
    const auto cause =
        said.tensor.empty() ? std::string("ranks' shares are no more than what they are aligned to")
        : said.rows == 0
            ? concat("for the blocks of ", said.tensor, "; not even one row a block is below a fifth")
            : concat("for the blocks of ", said.tensor, "; with ", said.rows,
                     " rows a block it is below a fifth");
    const auto warning = concat(g.group->name, ": ", percent(g.padding()), " are padding, ", cause);
    text += concat("\nwarning: ", warning);
    warnings.push_back(warning);
  }
  char ms[96];
  std::snprintf(ms, sizeof ms, "\nplanned in %.3f ms; with equal groups each by itself, in %.3f ms",
                plan.planned_in_ms, plan.planned_each_in_ms);
  text += ms;
  return {text,
          {{"model", model.name},
           {"ranks", request.buffer.shards},
           {"block_rows", coarse.rows},
           {"block_tile", coarse.tiles ? Json(request.block_tile) : Json()},
           {"order", fsdp::name(request.buffer.order)},
           {"padding", plan.padding},
           {"least_padding", plan.least_padding},
           {"planned_in_ms", plan.planned_in_ms},
           {"planned_each_in_ms", plan.planned_each_in_ms},
           {"groups", groups},
           {"notes", notes},
           {"warnings", warnings}}};
}

}  // namespace

std::vector<BlockTensor> parse_tensors(const std::string& text) {
  std::vector<BlockTensor> tensors;
  for (const auto one : split(text, ',')) {
    const auto parts = split(one, ':');
    LOCKSTEP_CHECK(parts.size() == 2 || parts.size() == 3, "[show buffer] --tensors ", text, ": write '", one,
                   "' as elements:granularity, or elements:granularity:period");
    tensors.push_back({number(parts[0], text), number(parts[1], text)});
    if (parts.size() == 3) tensors.back().period = number(parts[2], text);
  }
  return tensors;
}

suites::Coarse coarse_of(const ShowRequest& request) {
  if (request.block_tile.empty()) return {request.block_rows, request.dense_too};
  LOCKSTEP_CHECK(request.block_rows == 1, "[show buffer] give --block-rows or --block-tile, not both");
  const auto tile = parse_integers(request.block_tile, 'x');
  LOCKSTEP_CHECK(tile && tile->size() == 2 && (*tile)[1] >= 1, "[show buffer] --block-tile ",
                 request.block_tile, ": write rows and columns, for example 128x128");
  return {(*tile)[0], request.dense_too, true};
}

Shown show_buffer(const ShowRequest& request) {
  LOCKSTEP_CHECK(request.model.empty() != request.tensors.empty(),
                 "[show buffer] name a model, --model deepseek-v3, or give tensors, --tensors 20:2,6:6");
  LOCKSTEP_CHECK(request.tensors.empty() ||
                     (request.block_rows == 1 && request.block_tile.empty() && !request.dense_too),
                 "[show buffer] --tensors say their own granularity; leave out --block-rows, --block-tile "
                 "and --dense-too");
  if (request.step.on) return show_step(request);
  return request.model.empty() ? of_tensors(request) : of_model(request);
}

}  // namespace lockstep::program
