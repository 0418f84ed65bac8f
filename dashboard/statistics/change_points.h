// SPDX-License-Identifier: Apache-2.0
// Where a history changes its level: E-divisive (Matteson and James, Journal of the American Statistical
// Association 109, 2014).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::dashboard {

struct ChangePointOptions {
  size_t segment = 5;      // points that each side must have at the least
  double level = 0.01;     // a split with a greater p is none
  int permutations = 199;  // for each split; the least p is 1 / 200
  uint64_t seed = 1;
  size_t most = 200;  // newest points that are looked at: time grows with the square
};

struct ChangePoint {
  size_t position = 0;           // of the first point of the new level
  double before = 0, after = 0;  // medians of the segments on both sides
  double effect = 0;             // after / before - 1
  double p = 1;                  // of the split against a shuffled order
};

struct ChangePoints {
  std::vector<ChangePoint> points{};  // by position
  // Positions from here on are too near the end to begin a segment: a change there shows when it has
  // options.segment points.
  size_t judged = 0;
};

// Law: the same values give the same answer; a history without two segments, or of one value, has no change
// point. Deviations are compared as logarithms if all values are positive, so that one scale serves the
// whole. A shuffled order is what splits are tested against: a history whose neighbours resemble each other
// has more of them.
ChangePoints change_points(std::span<const double> history, const ChangePointOptions& options = {});

}  // namespace lockstep::dashboard
