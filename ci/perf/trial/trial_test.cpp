// SPDX-License-Identifier: Apache-2.0
// What README.md promises, on every machine: seeded, so that a failure is the same tomorrow.
#include "ci/perf/trial/trial.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::perf::trial {
namespace {

// A count is against a promised rate if chance alone would give one as bad in fewer than one of 1000 tests.
constexpr double kChance = 0.001;

const Machine& machine(const std::string& name) {
  for (const auto& m : machines())
    if (m.name == name) return m;
  ADD_FAILURE() << "no machine " << name;
  return machines().front();
}

Policy quick() {
  Policy policy;
  policy.resamples = 100;  // of 400: where the noise is near the limit, the statement only scatters more
  return policy;
}

// Catches: an interval that is not asked, noise estimated too small, a confirmation that loses what is there.
TEST(Promise, WhereTenPercentWouldShowItIsFound) {
  for (const auto& m : machines()) {
    for (const size_t rounds : {8, 12, 20}) {
      Slowdowns sum;
      for (const double scale : {0.005, 0.02, 0.04, 0.06})
        for (const size_t family : {1, 200})
          sum.add(slow_down({&m, scale, rounds, family}, 0.1, 40, quick(), 11));
      EXPECT_GE(binomial_at_most(sum.found, sum.stated, 0.95), kChance)
          << m.name << ", " << rounds << " rounds: " << sum.found << " of " << sum.stated;
      EXPECT_EQ(sum.hidden, 0) << m.name;
      EXPECT_GE(1 - binomial_at_most(sum.same - 1, sum.trials, 0.01), kChance)
          << m.name << ", " << rounds << " rounds: 10 % called the same " << sum.same << " times of "
          << sum.trials;
    }
  }
}

// Catches: a procedure that keeps the promise above by stating nothing.
TEST(Promise, AnOrdinaryMachineIsMeasured) {
  for (const std::string name : {"quiet", "interrupted", "drift", "coarse timer", "wandering"}) {
    const Slowdowns slow = slow_down({&machine(name), 0.01, 20, 200}, 0.1, 50, quick(), 5);
    EXPECT_GE(slow.found, 48) << name;
    const Nights night = same_binary({&machine(name), 0.01, 20, 200}, 1, quick(), 6);
    EXPECT_GE(night.same, 194) << name << " of " << night.series;
  }
}

// Catches: a missing correction for many series, alarms that are not repeated, neighbouring rounds taken for
// independent ones.
TEST(Promise, NightsOfOneBinaryRaiseNoMoreAlarmsThanStated) {
  Policy policy;
  policy.resamples = 1;
  for (const auto& m : machines()) {
    for (const size_t rounds : {12, 20}) {
      const Nights many = same_binary({&m, 0.05, rounds, 200}, 20, policy, 21);
      EXPECT_GE(1 - binomial_at_most(many.alarmed - 1, many.nights, policy.alpha), kChance)
          << m.name << ", 200 series: " << many.alarmed << " of " << many.nights;
      const Nights few = same_binary({&m, 0.05, rounds, 5}, 300, policy, 22);
      EXPECT_GE(1 - binomial_at_most(few.alarmed - 1, few.nights, policy.alpha), kChance)
          << m.name << ", 5 series: " << few.alarmed << " of " << few.nights;
    }
  }
}

// Catches: dependence that no series shows surely enough by itself, and all of a night do together.
TEST(Promise, ANightOfDependentRoundsRaisesNoMoreAlarmsThanStated) {
  Policy policy;
  policy.resamples = 1;
  const Nights nights = same_binary({&machine("clinging"), 0.08, 10, 200}, 60, policy, 23);
  EXPECT_GE(1 - binomial_at_most(nights.alarmed - 1, nights.nights, policy.alpha), kChance)
      << nights.alarmed << " of " << nights.nights;
}

// The trial above can fail: without the correction, it does.
TEST(Trial, SeesAlarmsOfAProcedureThatDoesNotCorrect) {
  Policy careless;
  careless.resamples = 1;
  careless.alpha = 0.99;
  careless.batch_p = 0.2;
  careless.max_false_alarms = 1;
  const Nights nights = same_binary({&machine("quiet"), 0.05, 20, 200}, 20, careless, 21);
  EXPECT_LT(1 - binomial_at_most(nights.alarmed - 1, nights.nights, Policy{}.alpha), kChance);
}

// Catches the dead zone of small samples: numbers of rounds with which nothing can ever be found, and "same"
// said all the same.
TEST(Promise, NoNumberOfRoundsIsADeadZone) {
  Random random(3);
  for (const size_t family : {1, 20, 200, 2000}) {
    const int least = least_rounds(family, {});
    for (int rounds = 2; rounds <= 24; ++rounds) {
      int found = 0;
      for (int trial = 0; trial < 5; ++trial) {
        const Turns turns =
            take_turns(machine("quiet"), 0.01, static_cast<size_t>(rounds), std::log(2.0), random);
        const TurnsVerdict v = judge_turns({&turns, 1}, family, quick()).front();
        found += v.finding == Finding::kMore;
        EXPECT_NE(v.finding, Finding::kNone) << rounds << " rounds, " << family << " series";
        EXPECT_EQ(v.reason == Reason::kFew, rounds < least) << rounds;
        EXPECT_TRUE(rounds >= least || std::isinf(v.detectable)) << rounds;
      }
      EXPECT_TRUE(rounds < least ? found == 0 : found >= 3) << found << " of 5, " << rounds << " rounds";
    }
  }
}

// Catches: an arm whose processes stay displaced for a whole batch, blamed on the binary.
TEST(Promise, ABinaryThatDiffersFromItselfIsNotMeasured) {
  Random random(4);
  Turns turns = take_turns(machine("quiet"), 0.01, 20, std::log(1.1), random);
  for (double& x : turns.same) x += std::log(1.1);
  const TurnsVerdict v = judge_turns({&turns, 1}, 1, quick()).front();
  EXPECT_EQ(v.finding, Finding::kNotMeasured);
  EXPECT_EQ(v.reason, Reason::kUnsteady);
  EXPECT_GT(v.false_alarms, 0.9);
}

// Catches: a seed that is the clock's, or depends on the place in the list.
TEST(Promise, TheSameSamplesGiveTheSameVerdict) {
  Random random(5);
  Turns a = take_turns(machine("quiet"), 0.03, 20, 0, random),
        b = take_turns(machine("quiet"), 0.03, 20, 0, random);
  a.name = "a";
  b.name = "b";
  const Turns both[] = {a, b}, turned[] = {b, a};
  const auto one = judge_turns(both, 2, quick()), two = judge_turns(turned, 2, quick());
  EXPECT_EQ(one[0].detectable, two[1].detectable);
  EXPECT_EQ(one[1].false_alarms, two[0].false_alarms);
  EXPECT_NE(one[0].detectable, one[1].detectable);
}

}  // namespace
}  // namespace lockstep::perf::trial
