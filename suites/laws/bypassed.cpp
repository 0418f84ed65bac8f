// SPDX-License-Identifier: Apache-2.0
#include "suites/laws/bypassed.h"

#include <algorithm>

#include "engine/ops/resolve.h"
#include "engine/values/error.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/schema.h"
#include "oracle/program/statements.h"
#include "suites/core/facts.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

std::string other_place(const oracle::Case& c, const EngineResult& by_rule, const EngineResult& bypassed) {
  for (size_t v = 0; v < std::min(by_rule.values.size(), bypassed.values.size()); ++v) {
    const auto &a = by_rule.values[v].spec, &b = bypassed.values[v].spec;
    if (a != nullptr && b != nullptr && *a != *b)
      return concat(oracle::value_name(c.program, static_cast<int64_t>(v)), " is ", *a, " by the rule, and ",
                    *b, " bypassed");
  }
  return "";
}

}  // namespace

std::optional<Failed> bypassed_otherwise(const oracle::Case& c, EngineUnderTest& engine) {
  EngineResult by_rule;
  try {
    by_rule = engine.run(c, true);  // nothing that is recorded is bypassed
  } catch (const Broken&) {
    throw;
  } catch (const std::exception& e) {
    if (is_lost(e)) throw;
    return std::nullopt;
  }
  std::string text;
  try {
    const auto bypassed = engine.run(c, false);
    text = other_place(c, by_rule, bypassed);
    if (text.empty()) text = first_disagreement(by_rule, bypassed);
  } catch (const std::exception& e) {
    if (is_lost(e)) throw;
    text = concat("bypassed it throws ", e.what());
  }
  if (text.empty()) return std::nullopt;
  return failed(c.suite, "bypass", c.program.calls.back().op, placement_pattern(c), "",
                concat("what is bypassed comes out otherwise than by its rule: ", text));
}

bool may_bypass(const oracle::Case& c) {
  return std::ranges::any_of(c.program.calls, [](const oracle::Call& call) {
    if (call.op == oracle::kEquality) return true;
    return !oracle::is_own(call.op) && !resolve(oracle::find_operator(call.op).handle).bypasses.empty();
  });
}

Outcome judge_bypassed(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(outcome) || !engine.profile().has(Flag::kTimeline) ||
      !engine.profile().has(Flag::kRules) || !may_bypass(c))
    return outcome;
  if (auto otherwise = bypassed_otherwise(c, engine)) return *std::move(otherwise);
  return outcome;
}

}  // namespace lockstep::suites
