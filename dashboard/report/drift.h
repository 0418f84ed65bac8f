// SPDX-License-Identifier: Apache-2.0
// How fast two curves part.
#pragma once
#include <optional>
#include <span>

namespace lockstep::dashboard {

struct DriftPoint {
  double step = 0, distance = 0;
};

// More points than this are thinned to so many, evenly spaced, the first and the last among them.
inline constexpr size_t kDriftPoints = 1000;

// Theil and Sen's slope: the median of (distance_j - distance_i) / (step_j - step_i) over all pairs of points
// with different steps; of an even number, the mean of the middle two. Up to 29 % of the points may be
// anything without moving it far. Points that are not finite are left out; empty with fewer than two.
std::optional<double> drift(std::span<const DriftPoint> points);

}  // namespace lockstep::dashboard
