// SPDX-License-Identifier: Apache-2.0
// The effect that differences of pairs show: the Hodges-Lehmann estimate, the interval of Walsh averages that
// belongs to it, and the p of Wilcoxon's signed-rank test. Nothing is assumed of the noise but that, without
// an effect, each difference has either sign with the same chance, which turns in a drawn order guarantee.
#pragma once
#include <span>
#include <vector>

#include "ci/perf/statistics/signed_rank.h"

namespace lockstep::perf {

struct Paired {
  int n = 0;
  double effect = 0;         // median of the Walsh averages; 0 without pairs
  double low = 0, high = 0;  // infinite where n is too small for the level
  double p = 1;              // two-sided
};

// The averages of all pairs i <= j.
std::vector<double> walsh_averages(std::span<const double> differences);

// Law: P(low <= true effect <= high) >= 1 - level and, without an effect, P(p <= x) <= x for every x, for
// every symmetric noise. Ties and zeros count against a finding: the sum of positive ranks is the number of
// Walsh averages above zero, and an average of exactly zero supports neither side. That is the least that any
// way to break the ties could give, so p is at least that of breaking them by coin, which is exact.
Paired compare(std::span<const double> differences, const SignedRank& null, double level);

}  // namespace lockstep::perf
