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
  std::sort(averages.begin(), averages.end());
  return averages;
}

Paired compare(std::span<const double> differences, const SignedRank& null, double level) {
  Paired result;
  result.n = static_cast<int>(differences.size());
  const auto averages = walsh_averages(differences);
  const size_t count = averages.size();
  if (count > 0) result.effect = (averages[(count - 1) / 2] + averages[count / 2]) / 2;
  const auto below = std::lower_bound(averages.begin(), averages.end(), 0.0) - averages.begin();
  const auto above = averages.end() - std::upper_bound(averages.begin(), averages.end(), 0.0);
  result.p = std::min(null.two_sided(below), null.two_sided(above));
  const auto k = static_cast<size_t>(null.cut(level));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  result.low = k == 0 ? -kInfinity : averages[k - 1];
  result.high = k == 0 ? kInfinity : averages[count - k];
  return result;
}

}  // namespace lockstep::perf
