// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/turns.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep::perf {
namespace {

std::vector<double> batch(size_t rounds, double effect, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> normal(effect, noise);
  std::vector<double> values;
  for (size_t i = 0; i < rounds; ++i) values.push_back(normal(random));
  return values;
}

Turns series(const std::string& name, size_t rounds, double effect, double noise, std::mt19937_64& random) {
  return {name, batch(rounds, effect, noise, random), batch(rounds, 0, noise, random),
          batch(rounds, effect, noise, random)};
}

// Twelve rounds of one sign: p = 2 / 4096 in each batch, whatever the sizes.
Turns sure(double first, double second) {
  Turns turns{.name = "sure"};
  for (int i = 0; i < 12; ++i) {
    const double turn = (i % 2 != 0 ? -1 : 1) * 0.001 * (i + 1);
    turns.effect.push_back(first + turn / 10);
    turns.confirm.push_back(second + turn / 10);
    turns.same.push_back(turn);
  }
  return turns;
}

// Catches: a p of one batch alone, a correction for too few series, batches that contradict each other.
TEST(Turns, PIsTheSquareOfTheLargerTimesTheSeries) {
  const Turns agree[] = {sure(0.1, 0.12)}, contrary[] = {sure(0.1, -0.12)};
  const double one = 2.0 / 4096;
  const TurnsVerdict v = judge_turns(agree, 200, {}).front();
  EXPECT_NEAR(v.p, 200 * one * one, 1e-12);
  EXPECT_EQ(v.finding, Finding::kMore);
  EXPECT_NEAR(v.second.effect, 0.12, 0.001);
  const TurnsVerdict not_so = judge_turns(contrary, 200, {}).front();
  EXPECT_EQ(not_so.p, 1);
  EXPECT_FALSE(not_so.confirmed);
  EXPECT_EQ(not_so.finding, Finding::kNotMeasured);  // the second interval does not exclude 10 %
  EXPECT_EQ(not_so.reason, Reason::kNoise);
}

// Catches: alarms below the floor in either batch, and a second batch asked for in vain.
TEST(Turns, BelowTheFloorNothingIsAsked) {
  const Turns low[] = {sure(0.015, 0.1)}, once[] = {sure(0.1, 0.015)};
  EXPECT_FALSE(judge_turns(low, 1, {}).front().wants_second);
  EXPECT_EQ(judge_turns(low, 1, {}).front().finding, Finding::kNotMeasured);
  EXPECT_TRUE(judge_turns(once, 1, {}).front().wants_second);
  EXPECT_EQ(judge_turns(once, 1, {}).front().finding, Finding::kNone);
}

// Catches: a verdict without the pairs of one binary, from which noise is known.
TEST(Turns, WithoutTheCandidateTwiceNothingIsSaid) {
  Turns turns = sure(0.1, 0.1);
  turns.same.clear();
  EXPECT_EQ(judge_turns({&turns, 1}, 1, {}).front().reason, Reason::kFew);
}

// Law: whether a second batch is wanted does not depend on it, and the second batch decides alone what it
// says.
TEST(Turns, TheSecondBatchDoesNotChangeWhetherItIsWanted) {
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Turns> with;
    for (int i = 0; i < 5; ++i) with.push_back(series("s", 12, 0.03, 0.04, random));
    std::vector<Turns> without = with;
    for (auto& t : without) t.confirm.clear();
    Policy quick;
    quick.resamples = 1;
    const auto a = judge_turns(with, 5, quick), b = judge_turns(without, 5, quick);
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(a[i].wants_second, b[i].wants_second) << trial;
    for (size_t i = 0; i < 5; ++i) EXPECT_NE(b[i].finding, Finding::kMore) << trial;
  }
}

int found(double effect, int trials, std::mt19937_64& random) {
  Policy quick;
  quick.resamples = 1;
  int count = 0;
  for (int i = 0; i < trials; ++i) {
    const Turns turns = series("s", 20, effect, 0.03, random);
    count += judge_turns({&turns, 1}, 50, quick).front().finding == Finding::kMore;
  }
  return count;
}

// Catches: a smallest effect that is stated too small (not found after all) or too large (found long before).
TEST(Turns, WhatIsDetectableIsWhereFindingBegins) {
  std::mt19937_64 random(7);
  double sum = 0;
  Policy quick;
  quick.resamples = 200;
  for (int i = 0; i < 50; ++i) {
    Turns turns = series("s" + std::to_string(i), 20, 0, 0.03, random);
    turns.confirm.clear();
    sum += judge_turns({&turns, 1}, 50, quick).front().detectable;
  }
  const double stated = sum / 50;
  EXPECT_GE(found(stated, 200, random), 180);
  EXPECT_LE(found(stated * 0.6, 200, random), 140);
}

// Catches: neighbouring rounds that resemble each other taken for independent ones.
TEST(Turns, ResemblanceWeakensP) {
  Turns turns = sure(0.1, 0.1);
  std::vector<Turns> night;
  for (int i = 0; i < 12; ++i) turns.same[static_cast<size_t>(i)] = i < 6 ? 0.01 : -0.01;
  for (int i = 0; i < 12; ++i) turns.effect[static_cast<size_t>(i)] = 0.1 + (i < 6 ? 0.01 : -0.01);
  for (int i = 0; i < 20; ++i) night.push_back(turns);
  EXPECT_GT(judge_turns(night, 20, {}).front().first.p, 10 * 2.0 / 4096);
}

}  // namespace
}  // namespace lockstep::perf
