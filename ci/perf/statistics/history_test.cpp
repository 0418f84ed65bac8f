// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/history.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace lockstep::perf {
namespace {

std::vector<double> points(size_t n, double noise, std::mt19937_64& random) {
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> values;
  for (size_t i = 0; i < n; ++i) values.push_back(100 * std::exp(normal(random)));
  return values;
}

HistoryVerdict judge_history(const std::vector<double>& history, double newest, double second,
                             size_t family) {
  const History one[] = {{history, newest, second}};
  return judge_histories(one, family, {}).front();
}

// Nights of 200 series with an alarm, of 60; the second batch is the first again, or a value of its own.
int alarmed(size_t points, double (*noise)(std::mt19937_64&), bool again) {
  std::mt19937_64 random(1);
  int result = 0;
  for (int night = 0; night < 60; ++night) {
    std::vector<History> series(200);
    for (auto& one : series) {
      for (size_t i = 0; i < points; ++i) one.points.push_back(std::exp(noise(random)));
      one.newest = std::exp(noise(random));
      one.second = again ? one.newest : std::exp(noise(random));
    }
    bool alarm = false;
    for (const auto& v : judge_histories(series, 200, {})) alarm = alarm || v.confirmed;
    result += alarm;
  }
  return result;
}

double normal(std::mt19937_64& random) {
  return 0.02 * std::normal_distribution<double>()(random);
}
double heavy(std::mt19937_64& random) {
  return 0.01 * std::student_t_distribution<double>(2.5)(random);
}
double two_states(std::mt19937_64& random) {
  return 0.01 * std::normal_distribution<double>()(random) + (random() % 3 == 0 ? 0.18 : 0);
}
double outliers(std::mt19937_64& random) {
  return 0.01 * std::normal_distribution<double>()(random) + (random() % 30 == 0 ? 0.7 : 0);
}

constexpr int kMost = 5;  // of 60 nights at 1 %: more with a chance below 0.001

// Catches: a band that is too narrow for many series and few points. What a run draws for its whole length
// comes again in the second batch, so the band alone has to hold.
TEST(History, TheBandHoldsForManySeries) {
  for (const size_t points : {10, 20, 30}) EXPECT_LE(alarmed(points, normal, true), kMost) << points;
}

// Catches: bands of normal noise on a machine that has none, unnoticed: values of the second batch are drawn
// anew.
TEST(History, AnUnsteadyMachineIsNotBelieved) {
  for (const size_t points : {20, 30}) {
    EXPECT_LE(alarmed(points, heavy, false), kMost) << points;
    EXPECT_LE(alarmed(points, two_states, false), kMost) << points;
    EXPECT_LE(alarmed(points, outliers, false), kMost) << points;
  }
}

// Catches: one real change of level in the history taken for an unsteady machine.
TEST(History, AChangeOfLevelIsNoUnsteadiness) {
  std::mt19937_64 random(6);
  auto values = points(15, 0.005, random);
  for (const double x : points(15, 0.005, random)) values.push_back(1.3 * x);
  EXPECT_EQ(judge_history(values, 1.3 * 115, 1.3 * 115, 1).finding, Finding::kMore);
  EXPECT_EQ(judge_history(values, 130, 130, 1).finding, Finding::kNone);
}

// Catches: a statement that the newest point's own noise breaks.
TEST(History, WhatIsStatedAsDetectableIsFound) {
  std::mt19937_64 random(2);
  int stated = 0, found = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto values = points(31, 0.012 + 0.004 * (trial % 3), random);
    const double newest = values.back() * 1.1;
    values.pop_back();
    const auto v = judge_history(values, newest, newest, 20);
    if (v.detectable > std::log1p(0.1)) {
      EXPECT_NE(v.finding, Finding::kNone);
      continue;
    }
    ++stated;
    found += v.finding == Finding::kMore;
  }
  EXPECT_GE(stated, 500);
  EXPECT_GE(found, 0.95 * stated);
}

// Catches: one outlier as the last point of history turning the next, ordinary one into an alarm.
TEST(History, AnOutlierAtTheEndMovesNothing) {
  std::mt19937_64 random(3);
  auto values = points(20, 0.005, random);
  values.back() = 200;
  EXPECT_EQ(judge_history(values, 100, 100, 1).finding, Finding::kNone);
}

// Catches: points from before the window.
TEST(History, LooksAtTheNewestPoints) {
  std::mt19937_64 random(4);
  auto values = points(200, 0.5, random);
  for (const double x : points(30, 0.002, random)) values.push_back(x);
  const auto v = judge_history(values, 110, 110, 1);
  EXPECT_EQ(v.points, 30);
  EXPECT_EQ(v.finding, Finding::kMore);
}

TEST(History, IsSilentAboutFewPoints) {
  const std::vector<double> nine(9, 100.0);
  EXPECT_EQ(judge_history(nine, 300, 300, 1).reason, Reason::kFew);
  EXPECT_EQ(judge_history({}, 300, 300, 1).reason, Reason::kFew);
  EXPECT_EQ(judge_history(std::vector<double>(10, 100.0), 300, 300, 1).finding, Finding::kMore);
}

}  // namespace
}  // namespace lockstep::perf
