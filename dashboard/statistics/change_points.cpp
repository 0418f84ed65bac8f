// SPDX-License-Identifier: Apache-2.0
// The statistic of a split of [first, last) at t is the energy distance between the parts, weighted by their
// sizes: mn / (m + n) (2 E|X - Y| - E|X - X'| - E|Y - Y'|). The best split of every segment is found, the
// best of them tested by shuffling within the segments, and so on until the best one is no change.
#include "dashboard/statistics/change_points.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace lockstep::dashboard {
namespace {

struct Split {
  size_t first = 0, at = 0, last = 0;  // the parts are [first, at) and [at, last)
  double statistic = -1;
};

// Sums of distances between values, over rectangles of indices.
class Distances {
 public:
  explicit Distances(std::span<const double> values) : side_(values.size() + 1), sums_(side_ * side_, 0.0) {
    for (size_t i = 0; i + 1 < side_; ++i)
      for (size_t j = 0; j + 1 < side_; ++j)
        sums_[(i + 1) * side_ + j + 1] = std::abs(values[i] - values[j]) + sums_[i * side_ + j + 1] +
                                         sums_[(i + 1) * side_ + j] - sums_[i * side_ + j];
  }

  // Of all pairs with one index in [a, b) and the other in [c, d).
  double between(size_t a, size_t b, size_t c, size_t d) const {
    return sums_[b * side_ + d] - sums_[a * side_ + d] - sums_[b * side_ + c] + sums_[a * side_ + c];
  }

 private:
  size_t side_;
  std::vector<double> sums_;
};

double statistic(const Distances& d, size_t first, size_t at, size_t last) {
  const auto m = static_cast<double>(at - first), n = static_cast<double>(last - at);
  const double apart = 2 * d.between(first, at, at, last) / (m * n);
  const double left = d.between(first, at, first, at) / (m * (m - 1));
  const double right = d.between(at, last, at, last) / (n * (n - 1));
  return m * n / (m + n) * (apart - left - right);
}

// The right part may end before the segment does: a level that comes and goes is seen so.
Split best_split(std::span<const double> values, size_t segment) {
  Split best;
  if (values.size() < 2 * segment) return best;
  const Distances distances(values);
  for (size_t at = segment; at + segment <= values.size(); ++at)
    for (size_t last = at + segment; last <= values.size(); ++last)
      if (const double s = statistic(distances, 0, at, last); s > best.statistic)
        best = {0, at, values.size(), s};
  return best;
}

// (1 + shuffled orders at least as good) / (1 + orders); ends early once it must exceed the level.
double shuffled_p(std::vector<double> values, double found, const ChangePointOptions& options,
                  std::mt19937_64& random) {
  const double orders = options.permutations + 1;
  double better = 1;
  for (int i = 0; i < options.permutations && better <= options.level * orders; ++i) {
    for (size_t k = values.size(); k > 1; --k) std::swap(values[k - 1], values[random() % k]);
    better += best_split(values, options.segment).statistic >= found;
  }
  return better / orders;
}

double median(std::span<const double> part) {
  std::vector<double> sorted(part.begin(), part.end());
  std::sort(sorted.begin(), sorted.end());
  return (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
}

struct Found {
  size_t position = 0;
  double p = 1;
};

// Splits [first, last) and both its parts, as long as the splits are significant.
void divide(std::span<const double> values, size_t first, size_t last, const ChangePointOptions& options,
            std::mt19937_64& random, std::vector<Found>& found) {
  const auto part = values.subspan(first, last - first);
  const Split split = best_split(part, options.segment);
  if (split.statistic <= 0) return;
  const double p = shuffled_p({part.begin(), part.end()}, split.statistic, options, random);
  if (p > options.level) return;
  divide(values, first, first + split.at, options, random, found);
  found.push_back({first + split.at, p});
  divide(values, first + split.at, last, options, random, found);
}

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  if (std::any_of(result.begin(), result.end(), [](double x) { return x <= 0; })) return result;
  for (double& x : result) x = std::log(x);
  return result;
}

}  // namespace

ChangePoints change_points(std::span<const double> history, const ChangePointOptions& options) {
  const size_t left_out = history.size() > options.most ? history.size() - options.most : 0;
  const auto recent = history.subspan(left_out);
  const size_t segment = std::max<size_t>(options.segment, 2);
  ChangePoints result{.judged = history.size() - std::min(history.size(), segment - 1)};
  std::mt19937_64 random(options.seed);
  std::vector<Found> found;
  ChangePointOptions used = options;
  used.segment = segment;
  divide(logarithms(recent), 0, recent.size(), used, random, found);
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t begin = i == 0 ? 0 : found[i - 1].position;
    const size_t end = i + 1 == found.size() ? recent.size() : found[i + 1].position;
    ChangePoint point{.position = left_out + found[i].position, .p = found[i].p};
    point.before = median(recent.subspan(begin, found[i].position - begin));
    point.after = median(recent.subspan(found[i].position, end - found[i].position));
    point.effect = point.before == 0 ? 0 : point.after / point.before - 1;
    result.points.push_back(point);
  }
  return result;
}

}  // namespace lockstep::dashboard
