// SPDX-License-Identifier: Apache-2.0
// Law: every planted fault is found within its stated number of cases, and shrinks to at most its stated number of ops.
// The case of number i is fault i: an empty Program whose seed is i.
#include "engine/values/error.h"
#include "generators/programs.h"
#include "suites/faults/fault.h"
#include "suites/harness/examine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// The cases in which faults are looked for do not change with the seed of the run: the stated numbers hold for them.
constexpr uint64_t kSeed = 1;

dashboard::PlantedFault row_of(const Fault& fault, int64_t cases) {
  dashboard::PlantedFault row;
  row.name = fault.name;
  row.klass = fault.klass;
  row.suite = fault.suite;
  row.cases = cases;
  return row;
}

Outcome found(const Fault& fault, int64_t cases, const Suite& suite, const oracle::Case& c, const Failed& failure,
              EngineUnderTest& faulty) {
  const auto minimal = shrink_failure(suite, c, failure, faulty);
  auto row = row_of(fault, cases);
  row.found = true;
  row.shrunk_ops = static_cast<int64_t>(minimal.c.program.calls.size());
  row.token = oracle::to_token(minimal.c);
  const auto text = concat(fault.klass, " ", fault.name, ": found after ", cases, " cases of ", fault.suite,
                           ", shrunk to ", row.shrunk_ops, " ops; ", failure.bucket);
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

Outcome judge_fault(const oracle::Case& c, EngineUnderTest&) {
  LOCKSTEP_CHECK(c.program.seed < faults().size(), "[faults] there is no fault number ", c.program.seed);
  const auto& fault = faults()[c.program.seed];
  const auto& suite = find_suite(fault.suite);
  const auto faulty = fault.plant();
  for (int64_t i = 0; i < fault.cases; ++i) {
    const auto candidate = suite.generate(kSeed, i);
    if (!fault.touches(candidate)) continue;
    const auto outcome = judge_safely(suite, candidate, *faulty);
    if (const auto* failure = std::get_if<Failed>(&outcome))
      return found(fault, i + 1, suite, candidate, *failure, *faulty);
  }
  auto f = failed("faults", "survived", fault.name, "-", "",
                  concat(fault.klass, " ", fault.name, " (", fault.what, ") survived ", fault.cases, " cases of ", fault.suite));
  f.fault = row_of(fault, fault.cases);
  return f;
}

}  // namespace lockstep::suites
