// SPDX-License-Identifier: Apache-2.0
// The canary flips a bit of what is judged.
#include <gtest/gtest.h>

#include "suites/core/outcome.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

constexpr const char* kRuns =
    "v1:canary;mesh=2;seed=1;dev=1x256;x0=f32[4]:ones@[S0];v0=aten::neg(x0)#c9814230";
constexpr const char* kRefuses =
    "v1:canary;mesh=2;seed=1;dev=1x256;x0=f32[4]:normal(1)@[Pmin];v0=aten::neg_(x0)#678aca96";

// Catches: a bit that is flipped in the first run alone, where the judge of a refusal looks at a later one.
TEST(Canary, DiesAlsoWhereTheEngineRefuses) {
  LockstepEngine engine;
  for (const char* token : {kRuns, kRefuses}) {
    const auto outcome = judge_canary(oracle::parse_token(token), engine);
    const auto* passed = std::get_if<Passed>(&outcome);
    ASSERT_NE(passed, nullptr) << token << explanation_of(outcome);
    EXPECT_EQ(passed->note, "caught");
  }
}

}  // namespace
}  // namespace lockstep::suites
