// SPDX-License-Identifier: Apache-2.0
// The slope is that of the points, whatever a few of them are.
#include "dashboard/report/drift.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace lockstep::dashboard {
namespace {

std::vector<DriftPoint> line(int64_t n, double slope) {
  std::vector<DriftPoint> points;
  for (int64_t i = 0; i < n; ++i)
    points.push_back({static_cast<double>(2 * i), slope * static_cast<double>(2 * i) + 3});
  return points;
}

// Catches: a slope by index instead of step, one that a spike moves, thinning that loses the line.
TEST(Drift, SlopeOfALineWithSpikes) {
  for (const int64_t n : {2, 3, 10, 1001, 5000}) {
    auto points = line(n, 0.25);
    EXPECT_DOUBLE_EQ(*drift(points), 0.25) << n;
    if (n < 10) continue;
    for (size_t i = 0; i < points.size(); i += 5) points[i].distance = 1e9;
    EXPECT_NEAR(*drift(points), 0.25, 0.05) << n;
  }
}

// Catches: NaN that spreads, a slope out of nothing, points of one step.
TEST(Drift, NothingToMeasure) {
  EXPECT_FALSE(drift({}));
  EXPECT_FALSE(drift(line(1, 1)));
  EXPECT_FALSE(drift(std::vector<DriftPoint>{{1, 1}, {1, 2}}));
  auto points = line(9, 2);
  points[3].distance = std::nan("");
  points[4].distance = INFINITY;
  EXPECT_DOUBLE_EQ(*drift(points), 2);
  EXPECT_DOUBLE_EQ(*drift(std::vector<DriftPoint>{{0, 0}, {1, 1}, {2, 4}}), 2);
}

}  // namespace
}  // namespace lockstep::dashboard
