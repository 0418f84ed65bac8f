// SPDX-License-Identifier: Apache-2.0
// Law: every planted fault is found within its stated number of cases, and shrinks to at most its stated
// number of ops; its token, read back from its text, fails alike in an engine planted anew, as `lockstep
// replay TOKEN --fault NAME` does. The case of number i is fault i: an empty Program whose seed is i.
#include "engine/values/error.h"
#include "generators/shrink/shrink.h"
#include "suites/faults/fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// Why the cases in which faults are looked for do not change with the seed of the run: a case of this suite
// is its token, which says which fault and no more, and its verdict must be a function of that, in a replay
// too; and a fault's stated number of cases is a promise about one sequence, not a chance over all.
constexpr uint64_t kSeed = 3;

dashboard::PlantedFault row_of(const Fault& fault, int64_t cases) {
  dashboard::PlantedFault row;
  row.name = fault.name;
  row.klass = fault.klass;
  row.suite = fault.suite;
  row.cases = cases;
  return row;
}

constexpr int64_t kShrinkBudget = 400;

// A case tells the fault from the clean engine: it fails with the one, in whatever bucket, and passes with
// the other. Each case meets a fault planted anew, so that none fails for what the fault kept of the one
// before.
struct Trial {
  const Suite& suite;
  const Fault& fault;
  EngineUnderTest& clean;

  std::optional<Failed> failure(const oracle::Case& c) const {
    const auto outcome = judge_safely(suite, c, *fault.plant());
    const auto* f = std::get_if<Failed>(&outcome);
    if (f == nullptr) return std::nullopt;
    if (!std::holds_alternative<Passed>(judge_safely(suite, c, clean))) return std::nullopt;
    return *f;
  }
};

Failed missed(const dashboard::PlantedFault& row, const std::string& verdict, const std::string& text) {
  auto f = failed("faults", verdict, row.name, "-", "", text);
  f.fault = row;
  return f;
}

Outcome found(const Trial& trial, int64_t cases, const oracle::Case& c, const Failed& failure) {
  const Fault& fault = trial.fault;
  const auto shrunk = generators::shrink(
      c, [&](const oracle::Case& smaller) { return trial.failure(smaller).has_value(); }, kShrinkBudget,
      trial.suite.simpler == nullptr ? generators::candidates : trial.suite.simpler);
  auto row = row_of(fault, cases);
  row.shrunk_ops = std::ssize(shrunk.smallest.program.calls);
  row.token = oracle::to_token(shrunk.smallest);
  const auto replayed = trial.failure(oracle::parse_token(row.token));
  row.found = replayed.has_value();
  const auto text = concat(fault.klass, " ", fault.name, ": found after ", cases, " cases of ", fault.suite,
                           ", shrunk to ", row.shrunk_ops, row.shrunk_ops == 1 ? " op; " : " ops; ",
                           replayed ? replayed->bucket : failure.bucket);
  if (!row.found) {
    row.note = "its token does not fail when it is replayed";
    return missed(row, "does not replay", concat(text, "; ", row.note, ": ", row.token));
  }
  if (row.shrunk_ops > fault.ops) {
    row.note = concat("stated: at most ", fault.ops, " ops");
    return missed(row, "not shrunk", text + "; " + row.note);
  }
  Passed passed;
  passed.note = text;
  passed.fault = row;
  return passed;
}

}  // namespace

oracle::Case fault_case(uint64_t, int64_t index) {
  oracle::Case c;
  c.suite = "faults";
  c.mesh = DeviceMesh({1});
  c.program.seed = static_cast<uint64_t>(index);
  return c;
}

Outcome look_for(const Fault& fault, EngineUnderTest& clean, Lane numerics) {
  const auto& suite = find_suite(fault.suite);
  const Trial trial{suite, fault, clean};
  for (int64_t i = 0; i < fault.cases; ++i) {
    auto c = suite.generate(kSeed, i);
    c.numerics = numerics;
    if (!fault.touches(c)) continue;
    if (const auto failure = trial.failure(c)) return found(trial, i + 1, c, *failure);
  }
  return missed(row_of(fault, fault.cases), "survived",
                concat(fault.klass, " ", fault.name, " (", fault.what, ") survived ", fault.cases,
                       " cases of ", fault.suite));
}

Outcome judge_fault(const oracle::Case& c, EngineUnderTest& engine) {
  LOCKSTEP_CHECK(c.program.seed < faults().size(), "[faults] there is no fault number ", c.program.seed);
  return look_for(faults()[c.program.seed], engine, c.numerics);
}

}  // namespace lockstep::suites
