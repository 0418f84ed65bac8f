// SPDX-License-Identifier: Apache-2.0
#include "suites/core/facts.h"

#include <algorithm>
#include <functional>

#include "engine/layout/layout.h"
#include "engine/values/error.h"
#include "oracle/program/values.h"
#include "suites/core/heartbeat.h"
#include "suites/core/outcome.h"

namespace lockstep::suites {
namespace {

std::string worse(const std::string& a, const std::string& b) {
  return b == "empty" || a == "even" ? b : a;
}

void observe(const TimelineEntry& entry, Facts& facts) {
  std::vector<Placements> placements;
  std::string worst = "even";
  int64_t mesh_rank = 1;
  for (const auto* records : {&entry.inputs, &entry.outputs})
    for (const auto& r : *records) {
      if (!r.spec || (records == &entry.outputs && !entry.inputs.empty())) continue;
      placements.push_back(r.spec->placements());
      mesh_rank = r.spec->mesh().ndim();
      worst = worse(worst, evenness(*r.spec));
    }
  facts.coverage.emplace(entry.op, placement_pattern(placements), mesh_rank, worst);
}

std::string form_of(const TensorRecord& record, int64_t mesh_dim) {
  return record.spec ? short_form(record.spec->placements()[static_cast<size_t>(mesh_dim)]) : "-";
}

std::vector<std::string> short_forms(const std::vector<TensorRecord>& records, int64_t mesh_dim) {
  std::vector<std::string> texts;
  for (const auto& r : records) texts.push_back(form_of(r, mesh_dim));
  return texts;
}

// Mesh dimensions along which redistributions moved inputs of the next op.
using Moved = std::set<int64_t>;

// One that changes no placement, but the order of the cuts, moves along each dimension.
void note_moves(const TimelineEntry& redistribution, Moved& moved) {
  const auto& from = redistribution.inputs.at(0).spec;
  const auto& to = redistribution.outputs.at(0).spec;
  const bool same = from->placements() == to->placements();
  for (int64_t d = 0; d < from->mesh().ndim(); ++d)
    if (const auto k = static_cast<size_t>(d); same || from->placements()[k] != to->placements()[k])
      moved.insert(d);
}

void observe_rows(const TimelineEntry& entry, const Moved& moved, Facts& facts) {
  if (!takes_a_row(entry)) return;
  for (int64_t d = 0; d < entry.inputs[0].spec->mesh().ndim(); ++d)
    facts.rows.insert(row_text(entry.op, short_forms(entry.inputs, d), short_forms(entry.outputs, d)) +
                      kWays[moved.contains(d) ? 2
                            : moved.empty()   ? 0
                                              : 1]);
}

}  // namespace

std::string short_form(const Placement& placement) {
  return is_shard(placement) ? concat(kind(placement), shard_dim(placement)) : kind(placement);
}

std::string row_text(const std::string& op, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs) {
  // Of a list of tensors that lie alike, three: the row is the same however many there are.
  const auto joined = [](const std::vector<std::string>& all) {
    const bool alike = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end();
    const size_t told = alike ? std::min<size_t>(all.size(), 3) : all.size();
    std::string text;
    for (size_t i = 0; i < told; ++i) text += (text.empty() ? "" : ",") + all[i];
    return text;
  };
  return concat(op, "[", joined(inputs), ">", joined(outputs), "]");
}

bool takes_a_row(const TimelineEntry& entry) {
  if (entry.op.starts_with("aten::_foreach_") || entry.op.starts_with("aten::_fused_adam")) return false;
  return entry.op.starts_with("aten::") && !entry.inputs.empty() && entry.inputs[0].spec;
}

std::string evenness(const Spec& spec) {
  bool uneven = false;
  const auto first = local_shape(spec, 0);
  for (int64_t position = 0; position < spec.mesh().size(); ++position) {
    const auto shape = local_shape(spec, position);
    if (spec.numel() > 0 && std::find(shape.begin(), shape.end(), 0) != shape.end()) return "empty";
    uneven |= shape != first;
  }
  return uneven ? "uneven" : "even";
}

std::string evenness(const oracle::Case& c) {
  std::string all = "even";
  for (size_t i = 0; i < c.program.inputs.size() && i < c.placements.size(); ++i)
    all = worse(all, evenness(oracle::spec_of(c, static_cast<int64_t>(i))));
  return all;
}

std::string placement_pattern(const oracle::Case& c) {
  std::vector<Placements> all;
  oracle::each_target(c, [&](const oracle::Target& target) { all.push_back(target.placements); });
  return placement_pattern(all);
}

std::vector<std::string> op_names(const oracle::Program& program) {
  std::vector<std::string> names;
  for (const auto& call : program.calls)
    if (std::find(names.begin(), names.end(), call.op) == names.end()) names.push_back(call.op);
  return names;
}

EngineResult Observing::run(const oracle::Case& c, bool want_timeline) {
  beat();
  auto result = engine_.run(c, want_timeline);
  ++facts_.runs;
  facts_.bytes_moved += result.bytes_moved;
  facts_.fallbacks = std::max(facts_.fallbacks, result.fallbacks);
  Moved moved;
  for (const auto& entry : result.timeline) {
    observe(entry, facts_);
    if (entry.implicit) {
      note_moves(entry, moved);
      continue;
    }
    observe_rows(entry, moved, facts_);
    moved.clear();
  }
  return result;
}

}  // namespace lockstep::suites
