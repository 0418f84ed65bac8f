// SPDX-License-Identifier: Apache-2.0
// The suite `golden` as a suite: what it refuses, what it tells of exceptions, and shrinking.
#include <gtest/gtest.h>

#include "engine/random/draw.h"
#include "engine/random/random_policy.h"
#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/harness/examine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

const Suite& golden() {
  return find_suite("golden");
}

// A draw of rand of a thousand elements, which is then nobody's recording, over two mesh dimensions.
oracle::Case thousand() {
  LockstepEngine engine;
  for (int64_t i = 0; i < golden_cases(); ++i) {
    auto c = golden_case(0, i);
    c.options["shape"] = "1000";
    const auto outcome = judge_safely(golden(), c, engine);
    const auto* passed = std::get_if<Passed>(&outcome);
    if (passed == nullptr || passed->labels.front() != "golden not recorded: rand f32") continue;
    c.mesh = DeviceMesh({2, 3});
    return c;
  }
  throw Broken("[golden] no such case");
}

// Catches: a token of no golden that ends as a broken harness, an option that is read by nobody.
TEST(GoldenLaw, RefusesWhatIsNoGolden) {
  const auto c = golden_case(0, 0);
  EXPECT_NO_THROW(check_case(golden(), c));
  const auto refuses = [&](const auto& change) {
    auto changed = c;
    change(changed);
    EXPECT_THROW(check_case(golden(), changed), Error);
  };
  refuses([](oracle::Case& one) { one.program.seed ^= 1; });
  refuses([](oracle::Case& one) { one.options["size"] = "2"; });
  refuses([](oracle::Case& one) { one.options["shape"] = "two"; });
  refuses([](oracle::Case& one) { one.program.calls.push_back({"aten::rand", {}, 1}); });
}

// Catches: a finding that is told as it was met, in all of its elements on all of its ranks.
TEST(GoldenLaw, FindingsShrink) {
  const auto c = thousand();
  LockstepEngine engine;
  const RandomPolicyScope per_rank(RandomPolicy::kPerRankSeeds);
  const auto outcome = judge_safely(golden(), c, engine);
  const auto* failure = std::get_if<Failed>(&outcome);
  ASSERT_NE(failure, nullptr) << explanation_of(outcome);
  EXPECT_EQ(failure->bucket, "golden | cut | rand | I+S | f32");
  const auto minimal = shrink_failure(golden(), c, *failure, engine);
  EXPECT_FALSE(minimal.budget_ended);
  EXPECT_EQ(minimal.c.options.at("shape"), "1") << oracle::to_token(minimal.c);
  EXPECT_LE(minimal.c.mesh.size(), 2) << oracle::to_token(minimal.c);
}

// Catches: an exception of the engine that ends as a broken harness: not a failure, not shrunk, not recorded.
TEST(GoldenLaw, WhatTheEngineThrowsIsAFailure) {
  const auto c = thousand();
  LockstepEngine engine;
  Drawing drawing;
  drawing.local = [](const RandomCall&, const Spec&, int64_t, const RandomState&,
                     const DeviceModel&) -> at::Tensor { throw Broken("not today"); };
  const DrawingScope scope(drawing);
  const auto outcome = judge_and_repeat(golden(), c, engine);
  const auto* failure = std::get_if<Failed>(&outcome);
  ASSERT_NE(failure, nullptr) << explanation_of(outcome);
  EXPECT_EQ(failure->bucket, "golden | exception | rand | - | f32");
  EXPECT_NE(failure->explanation.find("not today"), std::string::npos);
  EXPECT_EQ(shrink_failure(golden(), c, *failure, engine).c.options.at("shape"), "1");
}

}  // namespace
}  // namespace lockstep::suites
