// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/examine.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/fault.h"

namespace lockstep::suites {
namespace {

// An engine that has a fault in every other run.
class Moody : public EngineUnderTest {
 public:
  const EngineProfile& profile() const override { return clean_.profile(); }
  EngineResult run(const oracle::Case& c, bool want_timeline) override {
    return (++runs_ % 2 ? *faulty_ : clean_).run(c, want_timeline);
  }

 private:
  LockstepEngine clean_;
  std::unique_ptr<EngineUnderTest> faulty_ = find_fault("replica-drifts").plant();
  int runs_ = 0;
};

oracle::Case replicated() {
  return oracle::parse_token(oracle::to_token([] {
    auto c = find_suite("ops").generate(1, 0);
    c.program.inputs = {
        {c10::ScalarType::Float, {4, 6}, {}, {oracle::ValueKind::kNormal, 1, 0, 0, {}}, false}};
    c.program.calls = {{"aten::exp", {oracle::Ref{0}}, 1}};
    c.mesh = DeviceMesh({2});
    c.placements = {{{Replicate{}}, {}}};
    c.integer_lane = false;
    return c;
  }()));
}

// Catches: a flake that is passed, counted as a difference, or put on the wrong side.
TEST(Examine, NamesTheSideThatIsNotDeterministic) {
  Moody moody;
  const auto outcome = judge_and_repeat(find_suite("ops"), replicated(), moody);
  const auto* flaky = std::get_if<Flaky>(&outcome);
  ASSERT_NE(flaky, nullptr) << explanation_of(outcome);
  EXPECT_EQ(flaky->side, "engine");
  LockstepEngine clean;
  EXPECT_TRUE(std::holds_alternative<Passed>(judge_and_repeat(find_suite("ops"), replicated(), clean)));
}

// Catches: shrinking into another bug, past the budget, or not at all.
TEST(Examine, ShrinksWithinTheBucketAndTheBudget) {
  const auto faulty = find_fault("in-place-twice").plant();
  const auto& suite = find_suite("program");
  int found = 0;
  for (int64_t i = 0; i < 40 && found < 3; ++i) {
    const auto c = suite.generate(1, i);
    const auto outcome = judge_safely(suite, c, *faulty);
    const auto* f = std::get_if<Failed>(&outcome);
    if (f == nullptr) continue;
    ++found;
    const auto minimal = shrink_failure(suite, c, *f, *faulty, 60);
    const auto again = judge_safely(suite, minimal.c, *faulty);
    ASSERT_TRUE(std::holds_alternative<Failed>(again));
    EXPECT_EQ(std::get<Failed>(again).bucket, f->bucket);
    EXPECT_LE(minimal.c.program.calls.size(), c.program.calls.size());
    EXPECT_EQ(oracle::to_token(shrink_failure(suite, c, *f, *faulty, 0).c), oracle::to_token(c));
  }
  EXPECT_EQ(found, 3);
}

// Catches: a crash that is shrunk into a case that lives, past the budget, not at all, or though it does not
// repeat itself; a process that ends by itself, or is slow, taken for a crash.
TEST(Examine, ShrinksACrashWithinTheBudget) {
  const auto dies_of = [](const std::string& words, const std::string& how) {
    return std::vector<std::string>{"/bin/sh", "-c", concat("case \"$0\" in ", words, ") ", how, ";; esac")};
  };
  const auto& suite = find_suite("program");
  auto c = suite.generate(1, 0);
  for (int64_t i = 1; c.program.calls.size() < 3; ++i) c = suite.generate(1, i);
  const auto op = c.program.calls[1].op;
  const auto minimal = shrink_crash(c, dies_of("*" + op + "*", "kill -SEGV $$"));
  EXPECT_LT(minimal.c.program.calls.size(), c.program.calls.size());
  EXPECT_NE(oracle::to_token(minimal.c).find(op), std::string::npos);
  EXPECT_GT(minimal.steps, 0);
  for (const auto& judge :
       {dies_of("nothing", "kill -SEGV $$"), dies_of("*", "exit 3"), dies_of("*", "kill -ALRM $$")}) {
    const auto same = shrink_crash(c, judge);
    EXPECT_EQ(oracle::to_token(same.c), oracle::to_token(c));
    EXPECT_EQ(same.steps, 0);
  }
  const auto stopped = shrink_crash(c, dies_of("*", "kill -SEGV $$"), 1);
  EXPECT_EQ(stopped.steps, 1);
  EXPECT_TRUE(stopped.budget_ended);
}

}  // namespace
}  // namespace lockstep::suites
