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

// Catches: a night of many series that alarms out of noise; the second batch here repeats the first, so the
// band alone has to hold.
TEST(History, TheBandHoldsForManySeries) {
  std::mt19937_64 random(1);
  for (const size_t n : {10, 20, 30}) {
    int alarmed = 0;
    for (int night = 0; night < 100; ++night) {
      bool alarm = false;
      for (int series = 0; series < 200; ++series) {
        auto values = points(n + 1, 0.02, random);
        const double newest = values.back();
        values.pop_back();
        alarm = alarm || judge_history(values, newest, newest, 200, {}).confirmed;
      }
      alarmed += alarm;
    }
    EXPECT_LE(alarmed, 6) << n << " points";  // of 100 nights at 1 %: more with a chance below 0.001
  }
}

// Catches: a statement that the newest point's own noise breaks.
TEST(History, WhatIsStatedAsDetectableIsFound) {
  std::mt19937_64 random(2);
  int stated = 0, found = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    auto values = points(31, 0.012 + 0.004 * (trial % 3), random);
    const double newest = values.back() * 1.1;
    values.pop_back();
    const auto v = judge_history(values, newest, newest, 20, {});
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
  EXPECT_EQ(judge_history(values, 100, 100, 1, {}).finding, Finding::kNone);
}

// Catches: points from before the window.
TEST(History, LooksAtTheNewestPoints) {
  std::mt19937_64 random(4);
  auto values = points(200, 0.5, random);
  for (const double x : points(30, 0.002, random)) values.push_back(x);
  const auto v = judge_history(values, 110, 110, 1, {});
  EXPECT_EQ(v.points, 30);
  EXPECT_EQ(v.finding, Finding::kMore);
}

TEST(History, IsSilentAboutFewPoints) {
  const std::vector<double> nine(9, 100.0);
  EXPECT_EQ(judge_history(nine, 300, 300, 1, {}).reason, Reason::kFew);
  EXPECT_EQ(judge_history({}, 300, 300, 1, {}).reason, Reason::kFew);
  EXPECT_EQ(judge_history(std::vector<double>(10, 100.0), 300, 300, 1, {}).finding, Finding::kMore);
}

}  // namespace
}  // namespace lockstep::perf
