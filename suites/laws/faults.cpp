// SPDX-License-Identifier: Apache-2.0
// Law: every planted fault is found within its stated number of cases, and shrinks to at most its stated
// number of ops. The case of number i is fault i: an empty Program whose seed is i.
#include "engine/values/error.h"
#include "generators/shrink.h"
#include "suites/faults/fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// The cases in which faults are looked for do not change with the seed of the run: the stated numbers hold
// for them.
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

// A case tells the fault from the clean engine: it fails with the one, in this bucket, and passes with the
// other.
struct Trial {
  const Suite& suite;
  EngineUnderTest &faulty, &clean;

  std::optional<Failed> failure(const oracle::Case& c, const std::string& bucket = "") const {
    const auto outcome = judge_safely(suite, c, faulty);
    const auto* f = std::get_if<Failed>(&outcome);
    if (f == nullptr || (!bucket.empty() && f->bucket != bucket)) return std::nullopt;
    if (!std::holds_alternative<Passed>(judge_safely(suite, c, clean))) return std::nullopt;
    return *f;
  }
};

Outcome found(const Fault& fault, int64_t cases, const Trial& trial, const oracle::Case& c,
              const Failed& failure) {
  const auto shrunk = generators::shrink(
      c, [&](const oracle::Case& smaller) { return trial.failure(smaller, failure.bucket).has_value(); },
      kShrinkBudget);
  auto row = row_of(fault, cases);
  row.found = true;
  row.shrunk_ops = static_cast<int64_t>(shrunk.smallest.program.calls.size());
  row.token = oracle::to_token(shrunk.smallest);
  const auto text =
      concat(fault.klass, " ", fault.name, ": found after ", cases, " cases of ", fault.suite, ", shrunk to ",
             row.shrunk_ops, row.shrunk_ops == 1 ? " op; " : " ops; ", failure.bucket);
  if (row.shrunk_ops > fault.ops) {
    row.note = concat("stated: at most ", fault.ops, " ops");
    auto f = failed("faults", "not shrunk", fault.name, "-", "", text + "; " + row.note);
    f.fault = row;
    return f;
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

Outcome look_for(const Fault& fault, EngineUnderTest& clean) {
  const auto& suite = find_suite(fault.suite);
  const auto faulty = fault.plant();
  const Trial trial{suite, *faulty, clean};
  for (int64_t i = 0; i < fault.cases; ++i) {
    const auto c = suite.generate(kSeed, i);
    if (!fault.touches(c)) continue;
    if (const auto failure = trial.failure(c)) return found(fault, i + 1, trial, c, *failure);
  }
  auto f = failed("faults", "survived", fault.name, "-", "",
                  concat(fault.klass, " ", fault.name, " (", fault.what, ") survived ", fault.cases,
                         " cases of ", fault.suite));
  f.fault = row_of(fault, fault.cases);
  return f;
}

Outcome judge_fault(const oracle::Case& c, EngineUnderTest& engine) {
  LOCKSTEP_CHECK(c.program.seed < faults().size(), "[faults] there is no fault number ", c.program.seed);
  return look_for(faults()[c.program.seed], engine);
}

}  // namespace lockstep::suites
