// SPDX-License-Identifier: Apache-2.0
// Law: redistributions that are begun, run beside other ops, and waited for in another order give the
// oracle's bits, and every bit, byte and refusal of a run that waits at once; a result that nobody waits for
// is named, and a write to what is sent refused.
#include "suites/core/overlap.h"
#include "engine/values/error.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

struct Ran {
  EngineResult result;
  std::string thrown;  // a refusal, or what else the engine says; "": nothing
};

Ran ran(EngineUnderTest& engine, const oracle::Case& c) {
  try {
    return {engine.run(c, false), ""};
  } catch (const std::exception& e) {
    if (is_lost(e)) throw;
    if (const auto refusal = refusal_of(e, c)) return {{}, concat(refusal->op, ", ", refusal->reason)};
    return {{}, e.what()};
  }
}

// What a run that waits at once makes of one in which some results go without a wait.
EngineResult without_unmentioned(EngineResult result, const std::vector<Begun>& begun) {
  for (const auto& [source, moved, mentioned] : begun) {
    if (mentioned) continue;
    const auto placed = [&](int64_t v) { return *result.values.at(static_cast<size_t>(v)).spec; };
    result.never_waited.push_back(
        concat("[redistribute] ", placed(source), " -> ", to_string(placed(moved).placements())));
  }
  for (const auto& one : begun)
    if (!one.mentioned) result.values.at(static_cast<size_t>(one.result)) = {};
  return result;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& one : names) text += concat(text.empty() ? "" : ", ", one);
  return text.empty() ? "nothing" : text;
}

// "" if they are the same.
std::string disagreement(const EngineResult& wanted, const EngineResult& got) {
  if (wanted.never_waited != got.never_waited)
    return concat("never waited for: ", joined(wanted.never_waited), "; named: ", joined(got.never_waited));
  if (wanted.bytes_moved != got.bytes_moved)
    return concat(got.bytes_moved, " bytes move, and ", wanted.bytes_moved, " if each is waited for at once");
  if (wanted.random_after != got.random_after) return "the random stream ends elsewhere";
  for (size_t v = 0; v < std::min(wanted.values.size(), got.values.size()); ++v) {
    const auto &a = wanted.values[v].spec, &b = got.values[v].spec;
    if (a && b && *a != *b)
      return concat("value ", v, " is ", *b, ", and ", *a, " if it is waited for at once");
  }
  return first_disagreement(wanted, got);
}

std::string disagreement(const Ran& wanted, const Ran& got) {
  if (wanted.thrown != got.thrown)
    return concat("throws ", got.thrown.empty() ? "nothing" : got.thrown,
                  "; and if each is waited for at once ", wanted.thrown.empty() ? "nothing" : wanted.thrown);
  return got.thrown.empty() ? disagreement(wanted.result, got.result) : "";
}

}  // namespace

Outcome judge_overlap(const oracle::Case& c, EngineUnderTest& engine) {
  auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  if (!std::holds_alternative<Passed>(outcome)) return outcome;
  const auto at_once = ran(engine, c);
  for (const auto overlap : kOverlaps) {
    auto wanted = at_once;
    if (overlap == Overlap::kNever && wanted.thrown.empty())
      wanted.result = without_unmentioned(std::move(wanted.result), begun_by(c.program));
    const auto text = disagreement(wanted, ran(engine, overlapping(c, overlap)));
    if (!text.empty())
      return failed("overlap", name(overlap), "lockstep::redistribute", "-", "",
                    concat(name(overlap), ": ", text));
  }
  auto reversed = judge_against_oracle(overlapping(c, Overlap::kReversed), engine, Allowed::kExplained);
  return std::holds_alternative<Passed>(reversed) ? outcome : reversed;
}

}  // namespace lockstep::suites
