// SPDX-License-Identifier: Apache-2.0
// Law: what was decided before does not change what is computed now. A case holds one op several times, each
// time with one ingredient changed; it is run, run on another mesh with the same ranks, or on the same one
// under other names, and run again; and once with every op decided by itself, which moves as much, and comes
// to lie where it did.
#include "engine/tensor/cache.h"
#include "engine/values/error.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// The mesh dimensions in another order, with the placements that belong to them; or one dimension more.
oracle::Case on_another_mesh(oracle::Case c) {
  auto shape = c.mesh.shape();
  shape.push_back(1);
  c.mesh = DeviceMesh(shape).on(c.mesh.device_type());
  oracle::each_target(c, [](oracle::Target& target) {
    if (!target.order.empty()) target.order.push_back(std::ssize(target.placements));
    target.placements.push_back(Replicate{});
  });
  return c;
}

oracle::Case under_other_names(oracle::Case c) {
  std::vector<std::string> names;
  for (int64_t d = 0; d < c.mesh.ndim(); ++d) names.push_back(concat("other", d));
  c.mesh = DeviceMesh(c.mesh.shape(), names).on(c.mesh.device_type());
  return c;
}

// What is decided of a Program: how often, where each value lies and how much moved, or why it was refused;
// line by line.
std::vector<std::string> decided(const oracle::Case& c, EngineUnderTest& engine) {
  const auto decisions = [its = current_context()] {
    return its->counters.cache_hits + its->counters.cache_misses;
  };
  try {
    const auto before = decisions();
    const auto got = engine.run(c, false);
    std::vector<std::string> lines = {concat(decisions() - before, " decisions")};
    for (size_t v = 0; v < got.values.size(); ++v)
      lines.push_back(concat(oracle::value_name(c.program, static_cast<int64_t>(v)), ": ",
                             got.values[v].defined() ? to_string(*got.values[v].spec) : "undefined"));
    lines.push_back(concat("moved: ", got.bytes_moved, " bytes"));
    return lines;
  } catch (const EngineFailure&) {
    throw;
  } catch (const std::exception& e) {
    return {e.what()};
  }
}

std::vector<std::string> decided_anew(const oracle::Case& c, EngineUnderTest& engine) {
  const auto context = current_context();
  const DecidesAnew anew(*context);
  const auto hits = context->counters.cache_hits;
  auto lines = decided(c, engine);
  if (context->counters.cache_hits > hits) lines.emplace_back("what was decided before was used again");
  return lines;
}

}  // namespace

Outcome judge_cache(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(outcome)) return outcome;
  const bool renames = c.program.seed % 2 == 0 || c.mesh.ndim() >= 4;
  const auto between = renames ? under_other_names(c) : on_another_mesh(c);
  auto other = judge_against_oracle(between, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(other)) return other;
  auto again = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(again)) return again;
  const auto kept = decided(c, engine), anew = decided_anew(c, engine);
  if (kept == anew) return outcome;
  const auto [was, is] = std::mismatch(kept.begin(), kept.end(), anew.begin(), anew.end());
  const auto line = [](auto it, const auto& lines) { return it == lines.end() ? "nothing" : *it; };
  return failed(
      c.suite, "decision", "", placement_pattern(c), "",
      concat("by what was decided before, ", line(was, kept), "\ndecided by itself, ", line(is, anew)));
}

}  // namespace lockstep::suites
