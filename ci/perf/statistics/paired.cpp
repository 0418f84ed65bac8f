// SPDX-License-Identifier: Apache-2.0
// Formulas: Hodges and Lehmann, Annals of Mathematical Statistics 34 (1963), for the estimate; Tukey's count
// of Walsh averages for statistic and interval, in Hollander and Wolfe, Nonparametric Statistical Methods,
// sections 3.1 to 3.3; Noether, JASA 62 (1967), for the closed interval under ties.
#include "ci/perf/statistics/paired.h"

#include <algorithm>
#include <limits>

namespace lockstep::perf {

std::vector<double> walsh_averages(std::span<const double> differences) {
  std::vector<double> averages;
  averages.reserve(differences.size() * (differences.size() + 1) / 2);
  for (size_t i = 0; i < differences.size(); ++i)
    for (size_t j = i; j < differences.size(); ++j) averages.push_back((differences[i] + differences[j]) / 2);
  return averages;
}

namespace {

// The value at this place of the order, from [first, last) of which everything before is smaller.
double place(std::vector<double>& values, size_t first, size_t at, size_t last) {
  const auto begin = values.begin();
  const auto nth = begin + static_cast<std::ptrdiff_t>(at);
  std::nth_element(begin + static_cast<std::ptrdiff_t>(first), nth,
                   begin + static_cast<std::ptrdiff_t>(last));
  return *nth;
}

}  // namespace

Paired compare(std::span<const double> differences, const SignedRank& null, double level) {
  Paired result;
  result.n = static_cast<int>(differences.size());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result.low = -kInfinity;
  result.high = kInfinity;
  auto averages = walsh_averages(differences);
  const size_t count = averages.size();
  if (count == 0) return result;
  const auto below = std::count_if(averages.begin(), averages.end(), [](double x) { return x < 0; });
  const auto above = std::count_if(averages.begin(), averages.end(), [](double x) { return x > 0; });
  result.p = std::min(null.two_sided(below), null.two_sided(above));
  const size_t middle = count / 2;
  const double upper = place(averages, 0, middle, count);
  const double lower = count % 2 != 0 ? upper : place(averages, 0, middle - 1, middle);
  result.effect = (lower + upper) / 2;
  const auto k = static_cast<size_t>(null.cut(level));
  if (k == 0) return result;
  result.low = place(averages, 0, k - 1, middle + 1);
  result.high = place(averages, middle, count - k, count);
  return result;
}

}  // namespace lockstep::perf
