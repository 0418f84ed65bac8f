// SPDX-License-Identifier: Apache-2.0
// Law: what is computed does not depend on how the mesh is folded, how ranks are numbered, or how inputs were
// cut; ranks in another order hold the same bits at the same places; and a world of one is the single device,
// but for what a kernel makes of elements that lie flat.
#include <algorithm>

#include "engine/values/ragged.h"
#include "generators/cases/metamorphic.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

bool held(const Outcome& outcome) {
  return std::holds_alternative<Passed>(outcome);
}
bool is_refused(const Outcome& outcome) {
  const auto* passed = std::get_if<Passed>(&outcome);
  return passed != nullptr && passed->refusal.has_value();
}

std::vector<std::vector<int64_t>> shapes_of(const EngineResult& result) {
  std::vector<std::vector<int64_t>> shapes;
  for (const EngineValue& value : result.values)
    shapes.push_back(value.defined() ? value.spec->shape() : std::vector<int64_t>());
  return shapes;
}

// The judgement of a variant under the name of the change that made it.
Outcome named(Outcome outcome, const char* change) {
  if (auto* f = std::get_if<Failed>(&outcome)) {
    f->explanation = std::string(change) + ": " + f->explanation;
    f->bucket += std::string(" | ") + change;
  }
  return outcome;
}

bool has_flat_locals(oracle::Case c) {
  bool any = false;
  oracle::each_target(c, [&](oracle::Target& target) {
    any |= std::any_of(target.placements.begin(), target.placements.end(), is_ragged);
  });
  return any;
}

bool is_of_local_kernels(const Outcome& outcome) {
  const auto* passed = std::get_if<Passed>(&outcome);
  return passed != nullptr && std::all_of(passed->explained.begin(), passed->explained.end(), [](auto& op) {
           return op.second == dashboard::Verdict::kExplainedLocalKernel;
         });
}

// Whether its local is flat, row after row, and the whole lies otherwise.
bool lies_flat_alone(const SpecPtr& spec) {
  return spec && has_ragged(spec->placements()) && !at::geometry_is_contiguous(spec->shape(), spec->stride());
}

// A value of the Program, or what a kernel, of a backward pass too, reads.
bool reads_flat_alone(const EngineResult& result) {
  const auto is_flat = [](const auto& tensor) { return lies_flat_alone(tensor.spec); };
  return std::ranges::any_of(result.values, is_flat) ||
         std::ranges::any_of(result.timeline, [&](const TimelineEntry& entry) {
           return entry.op != oracle::kRedistribute && std::ranges::any_of(entry.inputs, is_flat);
         });
}

// On one rank a local lies in memory as the whole does, so that no kernel can tell them apart. That of a
// RaggedShard is flat, row after row, whatever the order of the whole: there another element may come to
// stand in the tail of a kernel's vector body, which is proved of each that differs; and where the whole lies
// otherwise, its elements are added up in another order.
Outcome judge_alone(const oracle::Case& c, EngineUnderTest& engine) {
  auto equal = judge_against_oracle(c, engine, Allowed::kEqual);
  if (held(equal) || !has_flat_locals(c)) return equal;
  auto explained = judge_against_oracle(c, engine, Allowed::kExplained);
  if (is_of_local_kernels(explained)) return explained;
  return held(explained) && reads_flat_alone(engine.run(c, true)) ? explained : equal;
}

}  // namespace

Outcome judge_metamorphic(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!held(outcome) || is_refused(outcome)) return outcome;
  auto reordered = generators::permute_ranks(c, generators::Random(c.program.seed));
  if (engine.profile().has(Flag::kSomeRanks))
    if (generators::Random own(c.program.seed + 1); own.chance(30))
      reordered = generators::ranks_of_larger_world(reordered, own);
  const EngineResult got = engine.run(c, false);
  const auto text = first_disagreement(got, engine.run(reordered, false));
  if (!text.empty()) return failed("metamorphic", "rank order", "", placement_pattern(c), "", text);
  if (const auto folded = generators::refactor_mesh(c, shapes_of(got))) {
    auto other = judge_against_oracle(*folded, engine, Allowed::kExplained);
    if (std::holds_alternative<Failed>(other)) return named(other, "mesh folded");
  }
  auto replicated = judge_against_oracle(generators::replicate_inputs(c), engine, Allowed::kExplained);
  if (std::holds_alternative<Failed>(replicated)) return named(replicated, "inputs replicated");
  const auto alone = judge_alone(generators::world_of_one(c), engine);
  if (!held(alone)) return named(alone, "one rank");
  return outcome;
}

}  // namespace lockstep::suites
