// SPDX-License-Identifier: Apache-2.0
#include "dashboard/statistics/change_points.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace lockstep::dashboard {
namespace {

// Levels one after the other, each of `length` points with this noise.
std::vector<double> history(const std::vector<double>& levels, size_t length, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, noise);
  std::vector<double> values;
  for (const double level : levels)
    for (size_t i = 0; i < length; ++i) values.push_back(level * std::exp(normal(random)));
  return values;
}

std::vector<size_t> positions(const ChangePoints& found) {
  std::vector<size_t> result;
  for (const auto& point : found.points) result.push_back(point.position);
  return result;
}

// Catches: positions off by one, an effect of the wrong side, a level that comes and goes unseen.
TEST(ChangePoints, FindsWhereALevelBegins) {
  const auto one = change_points(history({100, 110}, 20, 0.01, 1));
  ASSERT_EQ(positions(one), (std::vector<size_t>{20}));
  EXPECT_NEAR(one.points[0].effect, 0.1, 0.02);
  EXPECT_NEAR(one.points[0].before, 100, 1);
  EXPECT_LE(one.points[0].p, 0.01);
  EXPECT_EQ(positions(change_points(history({100, 95, 105, 90}, 12, 0.008, 3))),
            (std::vector<size_t>{12, 24, 36}));
}

// Catches: levels found beside where they begin. One history in 30 or so has a false split as well: three
// segments are tested at 1 %.
TEST(ChangePoints, FindsALevelThatComesAndGoes) {
  int exact = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto found = positions(change_points(history({100, 110, 100}, 15, 0.01, seed)));
    exact += found == std::vector<size_t>{15, 30};
    EXPECT_EQ(std::count(found.begin(), found.end(), 15u), 1) << seed;
    EXPECT_EQ(std::count(found.begin(), found.end(), 30u), 1) << seed;
  }
  EXPECT_GE(exact, 35);
}

// Catches: alarms out of noise, beyond the level.
TEST(ChangePoints, AreRareInNoise) {
  int alarms = 0;
  for (uint64_t seed = 0; seed < 200; ++seed)
    alarms += !change_points(history({100}, 40, 0.03, seed)).points.empty();
  EXPECT_LE(alarms, 8);  // of 200 at 1 %: more with a chance below 0.001
}

// Catches: an outlier taken for a level, however far it lies out.
TEST(ChangePoints, AnOutlierIsNoLevel) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto values = history({100}, 40, 0.01, seed);
    values[10 + seed] = 300;
    EXPECT_TRUE(change_points(values).points.empty()) << seed;
  }
}

// Catches: a segment shorter than stated, and silence about the newest points.
TEST(ChangePoints, SaysWhichPointsItCannotJudge) {
  auto values = history({100}, 30, 0.005, 1);
  for (size_t i = 0; i < 4; ++i) values.push_back(120);
  const auto early = change_points(values);
  EXPECT_TRUE(early.points.empty() || early.points[0].position <= 29);
  EXPECT_EQ(early.judged, 30u);
  values.push_back(120);
  EXPECT_EQ(positions(change_points(values)), (std::vector<size_t>{30}));
  EXPECT_EQ(change_points(values).judged, 31u);
}

// Catches: divisions by nothing.
TEST(ChangePoints, ShortAndConstantHistories) {
  for (size_t n = 0; n < 12; ++n) EXPECT_TRUE(change_points(std::vector<double>(n, 7.0)).points.empty()) << n;
  EXPECT_EQ(change_points({}).judged, 0u);
  EXPECT_TRUE(change_points(std::vector<double>(30, 0.0)).points.empty());
}

// Catches: chance from anywhere but the seed; old points that count.
TEST(ChangePoints, IsDeterministicAndLooksAtTheNewest) {
  const auto values = history({100, 103, 100, 106}, 30, 0.02, 9);
  const auto a = change_points(values), b = change_points(values);
  EXPECT_EQ(positions(a), positions(b));
  const auto late = change_points(values, {.most = 60});
  for (const auto& point : late.points) EXPECT_GE(point.position, 60u);
  EXPECT_FALSE(late.points.empty());
}

}  // namespace
}  // namespace lockstep::dashboard
