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
// below alpha together. Of |normal|, the third quartile is 1.150 and the range 0.832 deviations; a range of n
// values knows the deviation as well as 0.37 n squares do.
double ranges(size_t family, size_t deviations, double alpha) {
  const double tail = alpha / static_cast<double>(std::max<size_t>(family, 1)) / 2;
  const double freedom = 0.37 * static_cast<double>(deviations);
  return std::max(3.0, (student_quantile(tail, freedom) - 1.150) / 0.832);
}

}  // namespace

HistoryVerdict judge_history(std::span<const double> history, double newest, std::optional<double> second,
                             size_t family, const Policy& policy) {
  const auto most = static_cast<size_t>(policy.history_most);
  if (history.size() > most) history = history.last(most);
  HistoryVerdict v{.points = static_cast<int>(history.size())};
  if (!history.empty()) v.effect = deviation(history, history.size(), newest);
  if (v.points < std::max(3, policy.history_least)) {
    v.reason = Reason::kFew;
    v.band = v.detectable = std::numeric_limits<double>::infinity();
    return v;
  }
  std::vector<double> sizes;
  for (size_t i = 1; i < history.size(); ++i) sizes.push_back(std::abs(deviation(history, i, history[i])));
  std::sort(sizes.begin(), sizes.end());
  const double third = quantile(sizes, 0.75);
  v.band = third + ranges(family, sizes.size(), policy.alpha) * (third - quantile(sizes, 0.25));
  const double limit = std::max(v.band, policy.floor);
  v.detectable =
      limit + quantile(sizes, 2 * policy.power - 1);  // found unless its own noise is that far inwards
  const auto beyond = sizes.end() - std::upper_bound(sizes.begin(), sizes.end(), limit);
  v.false_alarms = static_cast<double>(beyond) / static_cast<double>(sizes.size());
  v.wants_second = std::abs(v.effect) > limit;
  if (v.wants_second && second) {
    const double again = deviation(history, history.size(), *second);
    v.confirmed = std::abs(again) > limit && (again > 0) == (v.effect > 0);
  }
  if (v.confirmed) {
    v.finding = v.effect > 0 ? Finding::kMore : Finding::kLess;
  } else if (v.wants_second && !second) {
    v.reason = Reason::kUnconfirmed;
  } else if (v.detectable > std::log1p(policy.max_detectable)) {
    v.reason = Reason::kNoise;
  } else {
    v.finding = Finding::kNone;
  }
  return v;
}

}  // namespace lockstep::perf
