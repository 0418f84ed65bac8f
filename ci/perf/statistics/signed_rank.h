// SPDX-License-Identifier: Apache-2.0
// The distribution of Wilcoxon's signed-rank statistic when there is no effect: the sum of those ranks 1..n
// whose coin shows heads.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::perf {

class SignedRank {
 public:
  // @pre n >= 0. Exact up to kExact, by counting subsets; a normal distribution of the same mean and
  // variance, with continuity correction, beyond.
  explicit SignedRank(int n);
  static constexpr int kExact = 60;

  int n() const { return n_; }
  int64_t greatest() const { return static_cast<int64_t>(n_) * (n_ + 1) / 2; }  // the sum of all ranks

  // P(W <= w).
  double at_most(int64_t w) const;
  // min(1, 2 P(W >= w)): the two-sided p of a sum w on the side of the effect.
  double two_sided(int64_t w) const;
  // The largest k with 2 P(W <= k - 1) <= level; 0: no k. The k-th smallest and the k-th largest of the
  // averages of all pairs bound the effect with confidence 1 - level.
  int64_t cut(double level) const;

 private:
  int n_;
  std::vector<double> at_most_;  // exact only
};

// Of a standard normal variable: P(Z <= z), and its inverse.
double normal_at_most(double z);
double normal_quantile(double p);

}  // namespace lockstep::perf
