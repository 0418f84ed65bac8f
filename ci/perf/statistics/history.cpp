// SPDX-License-Identifier: Apache-2.0
// Tukey's outer fence, the third quartile plus three interquartile ranges of the deviations, as trackers of
// compilers use it; moved out where many series are judged from few points.
#include "ci/perf/statistics/history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep::perf {
namespace {

constexpr size_t kBefore = 5;  // one outlier among them moves nothing
// Of the size of a standard normal value: its third quartile, and its interquartile range.
constexpr double kThird = 1.150, kRange = 0.832;

// Linear between the order statistics. @pre sorted, not empty.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto i = static_cast<size_t>(at);
  const size_t next = std::min(i + 1, sorted.size() - 1);
  return sorted[i] + (at - std::floor(at)) * (sorted[next] - sorted[i]);
}

// The log ratio of `value` to the median of the points before index `at`.
double deviation(std::span<const double> history, size_t at, double value) {
  const size_t first = at > kBefore ? at - kBefore : 0;
  std::vector<double> before(history.begin() + static_cast<std::ptrdiff_t>(first),
                             history.begin() + static_cast<std::ptrdiff_t>(at));
  std::sort(before.begin(), before.end());
  return std::log(value / quantile(before, 0.5));
}

// The upper quantile of Student's t, in Fisher's expansion (Annals of Eugenics 5, 1960 tables; four terms).
double student_quantile(double tail, double freedom) {
  const double z = -normal_quantile(tail), z2 = z * z;
  const double one = (z2 + 1) * z / 4;
  const double two = ((5 * z2 + 16) * z2 + 3) * z / 96;
  const double three = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
  return z + one / freedom + two / (freedom * freedom) + three / (freedom * freedom * freedom);
}

// How many interquartile ranges beyond the third quartile: three, or as many as keep `family` normal series
// below alpha together. A range of n values knows the deviation as well as 0.37 n squares do.
double ranges(size_t family, size_t deviations, double alpha) {
  const double tail = alpha / static_cast<double>(std::max<size_t>(family, 1)) / 2;
  const double freedom = 0.37 * static_cast<double>(deviations);
  return std::max(3.0, (student_quantile(tail, freedom) - kThird) / kRange);
}

// The outer fence of these sizes. @pre sorted, not empty.
double fence(const std::vector<double>& sizes, double ranges) {
  const double third = quantile(sizes, 0.75);
  return third + ranges * (third - quantile(sizes, 0.25));
}

// What the points of one series deviate from those before them, and what is too much.
struct Deviations {
  std::span<const double> history{};  // that counts
  std::vector<double> sizes{};        // ascending; empty: too few points
  double band = std::numeric_limits<double>::infinity(), limit = band;
  size_t beyond = 0;  // sizes beyond the limit that the others set
};

Deviations deviations(const History& series, size_t family, const Policy& policy) {
  Deviations d{.history = series.points};
  const auto most = static_cast<size_t>(policy.history_most);
  if (d.history.size() > most) d.history = d.history.last(most);
  if (d.history.size() < static_cast<size_t>(std::max(3, policy.history_least))) return d;
  for (size_t i = 1; i < d.history.size(); ++i)
    d.sizes.push_back(std::abs(deviation(d.history, i, d.history[i])));
  std::sort(d.sizes.begin(), d.sizes.end());
  d.band = fence(d.sizes, ranges(family, d.sizes.size(), policy.alpha));
  d.limit = std::max(d.band, policy.floor);
  const double without_one = ranges(family, d.sizes.size() - 1, policy.alpha);
  for (size_t i = 0; i < d.sizes.size(); ++i) {
    std::vector<double> others = d.sizes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    d.beyond += d.sizes[i] > std::max(policy.floor, fence(others, without_one));
  }
  return d;
}

// How often points of this machine lie beyond the bands of their series.
struct Machine {
  double rate = 0;
  bool unsteady = false;  // more than half as often as two batches that agree by chance may
};

// One real change of level puts three points beyond, until the median has followed.
Machine machine_of(const std::vector<Deviations>& all, size_t family, const Policy& policy) {
  size_t beyond = 0, points = 0;
  for (const auto& d : all) {
    beyond += d.beyond;
    points += d.sizes.size();
  }
  if (points == 0) return {};
  const double allowed = std::sqrt(policy.alpha / static_cast<double>(std::max<size_t>(family, 1))) / 2;
  const auto total = static_cast<double>(points);
  return {static_cast<double>(beyond) / total, static_cast<double>(beyond) > allowed * total + 3};
}

Reason why_not(const HistoryVerdict& v, const Machine& machine, bool second, const Policy& policy) {
  if (machine.unsteady) return Reason::kUnsteady;
  if (v.confirmed) return Reason::kNone;
  if (v.wants_second && !second) return Reason::kUnconfirmed;
  return v.detectable > std::log1p(policy.max_detectable) ? Reason::kNoise : Reason::kNone;
}

HistoryVerdict judge(const History& series, const Deviations& d, const Machine& machine,
                     const Policy& policy) {
  HistoryVerdict v{.points = static_cast<int>(d.history.size()), .band = d.band, .detectable = d.limit};
  if (v.points > 0) v.effect = deviation(d.history, d.history.size(), series.newest);
  v.reason = Reason::kFew;
  if (d.sizes.empty()) return v;
  // Found unless the point's own noise is that far inwards.
  v.detectable = d.limit + quantile(d.sizes, 2 * policy.power - 1);
  v.false_alarms =
      std::max(machine.rate, static_cast<double>(d.beyond) / static_cast<double>(d.sizes.size()));
  v.wants_second = !machine.unsteady && std::abs(v.effect) > d.limit;
  if (v.wants_second && series.second) {
    const double again = deviation(d.history, d.history.size(), *series.second);
    v.confirmed = std::abs(again) > d.limit && (again > 0) == (v.effect > 0);
  }
  v.reason = why_not(v, machine, series.second.has_value(), policy);
  if (v.reason == Reason::kUnsteady) v.detectable = std::numeric_limits<double>::infinity();
  if (v.reason != Reason::kNone) return v;
  v.finding = Finding::kNone;
  if (v.confirmed) v.finding = v.effect > 0 ? Finding::kMore : Finding::kLess;
  return v;
}

}  // namespace

std::vector<HistoryVerdict> judge_histories(std::span<const History> series, size_t family,
                                            const Policy& policy) {
  family = std::max(family, series.size());
  std::vector<Deviations> all;
  for (const auto& one : series) all.push_back(deviations(one, family, policy));
  const Machine machine = machine_of(all, family, policy);
  std::vector<HistoryVerdict> verdicts;
  for (size_t i = 0; i < series.size(); ++i) verdicts.push_back(judge(series[i], all[i], machine, policy));
  return verdicts;
}

}  // namespace lockstep::perf
