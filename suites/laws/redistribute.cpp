// SPDX-License-Identifier: Apache-2.0
// Law: a redistribution keeps the value, bit by bit, on every rank; so does going back, and going straight to
// the last placements gives what the way there gave; and it does by way of another mesh, too, and in another
// form (engines/forms.h), unless the library reduces. Sums of floats may differ by the order of their terms,
// with proof.
#include "suites/core/across.h"
#include "suites/core/by_library.h"
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

using oracle::Call;
using oracle::Ref;
using oracle::Target;

// The first input that the Program redistributes, and the Target of the last redistribution on the way from
// it.
struct Way {
  int64_t input = -1;
  Ref end;
  Target target;
};

Way way_of(const oracle::Case& c) {
  Way way;
  int64_t next = std::ssize(c.program.inputs);
  for (const auto& call : c.program.calls) {
    const auto* source = call.op == "lockstep::redistribute" ? std::get_if<Ref>(&call.args[0]) : nullptr;
    const bool starts = source != nullptr && way.input < 0 && source->id < std::ssize(c.program.inputs);
    if (starts) way.input = source->id;
    if (starts || (source != nullptr && way.input >= 0 && *source == way.end)) {
      way.end = {next};
      way.target = std::get<Target>(call.args[1]);
    }
    next += call.results;
  }
  return way;
}

// The same case, which then goes back from the end, and straight from the start to the end's placements.
oracle::Case there_and_back(const oracle::Case& c) {
  auto longer = c;
  const auto way = way_of(c);
  if (way.input < 0) return longer;
  const auto& start = c.placements[static_cast<size_t>(way.input)];
  longer.program.calls.push_back({"lockstep::redistribute", {way.end, start}, 1});
  longer.program.calls.push_back({"lockstep::redistribute", {Ref{way.input}, way.target}, 1});
  return longer;
}

}  // namespace

Outcome judge_redistribute(const oracle::Case& c, EngineUnderTest& engine) {
  const auto longer = there_and_back(c);
  auto straight = judge_against_oracle(longer, engine, Allowed::kExplained);
  // What pends on the way is reduced there: by the library in an order that only the straight way tells.
  const bool goes = engine.profile().has(Flag::kAcross) && !is_by_library(c);
  if (!std::holds_alternative<Passed>(straight) || !goes) return straight;
  const auto seed = static_cast<int64_t>(c.program.seed >> 1);
  auto by_way = judge_against_oracle(across(longer, seed), engine, Allowed::kExplained);
  return std::holds_alternative<Passed>(by_way) ? straight : by_way;
}

}  // namespace lockstep::suites
