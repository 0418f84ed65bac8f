// SPDX-License-Identifier: Apache-2.0
// The decisions of the engine where every key has the same hash.
#include <gtest/gtest.h>

#include "engine/ops/rules/table.h"
#include "engine/tensor/operands.h"
#include "engine/values/error.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// A line for each case: the first ones of every suite.
std::vector<std::string> verdicts() {
  unregister_sharding("none");  // so that the cache begins anew
  std::vector<std::string> lines;
  LockstepEngine engine;
  for (const auto& suite : suites()) {
    const int64_t cases = suite.self_check || suite.limit < 20 ? 2 : 20;
    for (int64_t i = 0; i < cases; ++i) {
      const auto outcome = judge_safely(suite, suite.generate(0, i), engine);
      lines.push_back(concat(suite.name, " ", i, " ", dashboard::name(verdict_of(outcome)), " ",
                             explanation_of(outcome)));
    }
  }
  return lines;
}

// Catches: two calls with other decisions whose keys are equal, and only their hashes tell them apart.
TEST(OneBucket, EverySuiteJudgesAlike) {
  const auto expected = verdicts();
  CacheKeyHash::one_bucket = true;
  EXPECT_EQ(verdicts(), expected);
  CacheKeyHash::one_bucket = false;
}

}  // namespace
}  // namespace lockstep::suites
