// SPDX-License-Identifier: Apache-2.0
// The pairs of two axes' values, and points that have them all.
#include <algorithm>
#include <functional>

#include "engine/values/error.h"
#include "generators/random/random_space.h"

namespace lockstep::generators {
namespace {

RandomPoint ends() {
  RandomPoint sizes{};
  for (size_t axis = 0; axis < kAxes; ++axis) sizes[axis] = axis_values(axis).size();
  return sizes;
}

// The points between these two, the second excluded.
template <class F>
void each_point(const RandomPoint& from, const RandomPoint& to, const F& f) {
  RandomPoint p = from;
  const std::function<void(size_t)> along = [&](size_t axis) {
    if (axis == kAxes) return f(p);
    for (p[axis] = from[axis]; p[axis] < to[axis]; ++p[axis]) along(axis + 1);
  };
  along(0);
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
  RandomPoint from{}, to = ends();
  from[pair.a] = pair.x, to[pair.a] = pair.x + 1;
  from[pair.b] = pair.y, to[pair.b] = pair.y + 1;
  RandomPoint best{};
  size_t most = 0;
  each_point(from, to, [&](const RandomPoint& p) {
    const auto gain = absent(p) == Absent::kNo ? wanted.gain(p) : 0;
    if (gain <= most) return;
    most = gain;
    best = p;
  });
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
    each_point({}, ends(), [&](const RandomPoint& point) {
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
