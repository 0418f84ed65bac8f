// SPDX-License-Identifier: Apache-2.0
// Refusals are met on purpose: a share of the cases of three suites ends with a view or an in-place op that
// has nowhere to go, and what becomes of it is a verdict.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/values/error.h"
#include "oracle/program/schema.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

class Refusals : public testing::TestWithParam<const char*> {};

// Whether it calls an op that is a view by its schema.
bool has_view(const oracle::Case& c) {
  return std::any_of(c.program.calls.begin(), c.program.calls.end(), [](const oracle::Call& call) {
    if (oracle::is_own(call.op)) return false;
    const auto& returns = oracle::find_operator(call.op).handle.schema().returns();
    return !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  });
}

// Catches: a generator that meets refusals by chance alone, of sizes of which anything may be true; a refusal
// that is not due.
TEST_P(Refusals, AreDueAndFrequent) {
  constexpr int64_t kCases = 2000;
  const auto& suite = find_suite(GetParam());
  LockstepEngine engine;
  std::map<std::string, int64_t> met;
  int64_t views = 0;
  for (int64_t i = 0; i < kCases; ++i) {
    const auto c = suite.generate(5, i);
    views += has_view(c);
    const auto outcome = judge_safely(suite, c, engine);
    if (const auto* passed = std::get_if<Passed>(&outcome))
      ++met[passed->refusal ? passed->refusal->reason : "ran"];
    else if (std::holds_alternative<GaveUp>(outcome))
      ++met["gave up"];
    else
      ADD_FAILURE() << oracle::to_token(c) << "\n" << explanation_of(outcome);
  }
  for (const auto& [what, n] : met) std::printf("%5ld %s\n", n, what.c_str());
  std::printf("%5ld with a view\n", views);
  EXPECT_GE(met[concat(kDue, "view")] * 100, views);
  EXPECT_GE(met[concat(kDue, "in place")], kCases / 100);
  // One in a hundred, and what chance adds to that in so many: of 12,000 gradients 112 do.
  EXPECT_LE(met["gave up"], kCases / 100 + 3 * static_cast<int64_t>(std::sqrt(kCases / 100)));
}
INSTANTIATE_TEST_SUITE_P(Of, Refusals, testing::Values("ops", "gradient", "program"));

}  // namespace
}  // namespace lockstep::suites
