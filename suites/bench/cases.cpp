// SPDX-License-Identifier: Apache-2.0
// The harness itself: cases a second, generated, run by the engine and judged by the oracle, on one core.
#include <memory>

#include "suites/bench/body.h"
#include "suites/bench/measure.h"
#include "suites/core/suite.h"
#include "suites/engines/make_engine.h"

namespace lockstep::suites {
namespace {

// Always the same cases: others would be other work.
constexpr int64_t kFirst = 8, kCases = 24;
constexpr uint64_t kSeed = 1;

bool holds(const Suite& suite, int64_t index, EngineUnderTest& engine) {
  return !dashboard::is_failure(verdict_of(judge_safely(suite, suite.generate(kSeed, index), engine)));
}

Prepared prepare(const Suite& suite) {
  std::shared_ptr<EngineUnderTest> engine = make_engine("lockstep");
  return {[&suite, engine] {
            for (int64_t i = 0; i < kFirst; ++i)
              if (!holds(suite, i, *engine))
                throw WrongBits(std::string("[cases of suite ") + suite.name + "] case " + std::to_string(i) +
                                " of seed " + std::to_string(kSeed) + " does not pass");
          },
          [&suite, engine](double) {
            const double start = thread_seconds();
            for (int64_t i = kFirst; i < kFirst + kCases; ++i) holds(suite, i, *engine);
            return static_cast<double>(kCases) / (thread_seconds() - start);
          }};
}

}  // namespace

void add_cases(Bodies& bodies) {
  for (const auto* name : {"program", "ops", "redistribute"})
    bodies.push_back({{std::string("cases of suite ") + name, "harness", false, true, "1/s"},
                      [name] { return prepare(find_suite(name)); }});
}

}  // namespace lockstep::suites
