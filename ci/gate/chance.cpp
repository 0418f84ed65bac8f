// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/chance.h"

#include <algorithm>
#include <cmath>

namespace lockstep::gate {
namespace {

// The logarithm of C(n, k). lgamma_r, for lgamma writes to a global.
double log_choose(int64_t n, int64_t k) {
  const auto log_factorial = [](int64_t m) {
    int sign = 0;
    return lgamma_r(static_cast<double>(m) + 1, &sign);
  };
  return log_factorial(n) - log_factorial(k) - log_factorial(n - k);
}

}  // namespace

double chance_of_more(Rate candidate, Rate baseline) {
  if (candidate.of <= 0 || baseline.of <= 0) return 1;
  const int64_t hits = candidate.hits + baseline.hits, most = std::min(hits, candidate.of);
  const double all = log_choose(candidate.of + baseline.of, hits);
  double sum = 0;
  for (int64_t k = std::max(candidate.hits, hits - baseline.of); k <= most; ++k)
    sum += std::exp(log_choose(candidate.of, k) + log_choose(baseline.of, hits - k) - all);
  return std::min(1.0, sum);
}

}  // namespace lockstep::gate
