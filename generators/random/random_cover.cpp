// SPDX-License-Identifier: Apache-2.0
// The pairs of two axes' values, and points that have them all.
#include <algorithm>

#include "engine/values/error.h"
#include "generators/random/random_space.h"

namespace lockstep::generators {
namespace {

size_t size_of(size_t axis) {
  return axis_values(axis).size();
}

template <class F>
void each_point(F f) {
  RandomPoint p{};
  for (p[0] = 0; p[0] < size_of(0); ++p[0])
    for (p[1] = 0; p[1] < size_of(1); ++p[1])
      for (p[2] = 0; p[2] < size_of(2); ++p[2])
        for (p[3] = 0; p[3] < size_of(3); ++p[3])
          for (p[4] = 0; p[4] < size_of(4); ++p[4]) f(p);
}

// Pairs not yet met, counted down by points.
class Wanted {
 public:
  explicit Wanted(const std::map<RandomPair, Absent>& pairs) {
    for (const auto& [pair, why] : pairs)
      if (why == Absent::kNo) left_.emplace(pair, true);
  }
  size_t gain(const RandomPoint& point) const {
    size_t n = 0;
    for (const auto& pair : pairs_of(point)) n += left_.at(pair) ? 1 : 0;
    return n;
  }
  void meet(const RandomPoint& point) {
    for (const auto& pair : pairs_of(point)) left_.at(pair) = false;
  }
  bool wants(const RandomPair& pair) const { return left_.at(pair); }

 private:
  std::map<RandomPair, bool> left_;
};

// Of the points with this pair, one that meets the most that is not met yet.
RandomPoint best_with(const RandomPair& pair, const Wanted& wanted) {
  std::array<size_t, kAxes> from{}, to{};
  for (size_t axis = 0; axis < kAxes; ++axis) {
    from[axis] = axis == pair.a ? pair.x : axis == pair.b ? pair.y : 0;
    to[axis] = axis == pair.a ? pair.x + 1 : axis == pair.b ? pair.y + 1 : size_of(axis);
  }
  RandomPoint best{}, p{};
  size_t most = 0;
  for (p[0] = from[0]; p[0] < to[0]; ++p[0])
    for (p[1] = from[1]; p[1] < to[1]; ++p[1])
      for (p[2] = from[2]; p[2] < to[2]; ++p[2])
        for (p[3] = from[3]; p[3] < to[3]; ++p[3])
          for (p[4] = from[4]; p[4] < to[4]; ++p[4]) {
            if (absent(p) != Absent::kNo) continue;
            const auto gain = wanted.gain(p);
            if (gain > most) {
              most = gain;
              best = p;
            }
          }
  return best;
}

}  // namespace

std::string to_string(const RandomPair& pair) {
  return concat(axis_values(pair.a)[pair.x], " / ", axis_values(pair.b)[pair.y]);
}

std::vector<RandomPair> pairs_of(const RandomPoint& point) {
  std::vector<RandomPair> pairs;
  for (size_t a = 0; a < kAxes; ++a)
    for (size_t b = a + 1; b < kAxes; ++b) pairs.push_back({a, b, point[a], point[b]});
  return pairs;
}

const std::map<RandomPair, Absent>& random_pairs() {
  static const auto all = [] {
    std::map<RandomPair, Absent> pairs;
    each_point([&](const RandomPoint& point) {
      const auto why = absent(point);
      for (const auto& pair : pairs_of(point)) {
        auto& known = pairs.try_emplace(pair, why).first->second;
        if (known != Absent::kNo) known = why == Absent::kNo ? why : std::max(known, why);
      }
    });
    return pairs;
  }();
  return all;
}

const std::vector<RandomPoint>& covering_points() {
  static const auto all = [] {
    Wanted wanted(random_pairs());
    std::vector<RandomPoint> points;
    for (const auto& [pair, why] : random_pairs()) {
      if (why != Absent::kNo || !wanted.wants(pair)) continue;
      points.push_back(best_with(pair, wanted));
      wanted.meet(points.back());
    }
    Random(1).shuffle(points);
    return points;
  }();
  return all;
}

}  // namespace lockstep::generators
