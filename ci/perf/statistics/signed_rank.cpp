// SPDX-License-Identifier: Apache-2.0
// Subsets of {1..n} are counted by their sum, as Wilcoxon (Biometrics Bulletin 1, 1945) tabulated them: with
// one more rank r, ways(w) += ways(w - r).
#include "ci/perf/statistics/signed_rank.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::perf {

SignedRank::SignedRank(int n) : n_(n) {
  if (n > kExact) return;
  std::vector<double> chance(static_cast<size_t>(greatest()) + 1, 0.0);
  chance[0] = 1;
  size_t last = 0;
  for (size_t rank = 1; rank <= static_cast<size_t>(n); ++rank) {
    last += rank;
    for (size_t w = last + 1; w-- > 0;) chance[w] = (chance[w] + (w >= rank ? chance[w - rank] : 0.0)) / 2;
  }
  double sum = 0;
  for (const double c : chance) at_most_.push_back(std::min(1.0, sum += c));
}

double SignedRank::at_most(int64_t w) const {
  if (w < 0) return 0;
  if (w >= greatest()) return 1;
  if (n_ <= kExact) return at_most_[static_cast<size_t>(w)];
  const double n = n_;
  const double deviation = std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
  return normal_at_most((static_cast<double>(w) + 0.5 - static_cast<double>(greatest()) / 2) / deviation);
}

double SignedRank::two_sided(int64_t w) const {
  return std::min(1.0, 2 * at_most(greatest() - w));  // the distribution is symmetric
}

int64_t SignedRank::cut(double level) const {
  int64_t low = 0, high = greatest() / 2 + 1;  // 2 P(W <= low - 1) <= level, and not so at high
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (2 * at_most(middle - 1) <= level ? low : high) = middle;
  }
  return low;
}

double normal_at_most(double z) {
  return std::erfc(-z / std::sqrt(2.0)) / 2;
}

double normal_quantile(double p) {
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  if (p >= 1) return std::numeric_limits<double>::infinity();
  double low = -40, high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_at_most(middle) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

}  // namespace lockstep::perf
