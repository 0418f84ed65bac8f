// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/signed_rank.h"

#include <gtest/gtest.h>

#include <cmath>

namespace lockstep::perf {
namespace {

// P(W <= w) by all 2^n ways to throw the coins.
double counted(int n, int64_t w) {
  int64_t hits = 0;
  for (uint64_t coins = 0; coins < (uint64_t{1} << n); ++coins) {
    int64_t sum = 0;
    for (int r = 0; r < n; ++r)
      if ((coins >> r & 1) != 0) sum += r + 1;
    hits += sum <= w;
  }
  return static_cast<double>(hits) / static_cast<double>(uint64_t{1} << n);
}

// Catches: a rank counted twice or not at all.
TEST(SignedRank, IsTheCountOfSubsets) {
  for (int n = 0; n <= 12; ++n) {
    const SignedRank null(n);
    for (int64_t w = -1; w <= null.greatest() + 1; ++w)
      EXPECT_NEAR(null.at_most(w), counted(n, w), 1e-12) << n << " " << w;
  }
}

// Critical values as printed in tables: the largest W with a two-sided p of at most the level.
TEST(SignedRank, AgreesWithPublishedTables) {
  struct Row {
    int n;
    int64_t five_percent, one_percent;
  };
  for (const auto& [n, five, one] :
       {Row{8, 3, 0}, Row{10, 8, 3}, Row{12, 13, 7}, Row{15, 25, 15}, Row{20, 52, 37}}) {
    EXPECT_EQ(SignedRank(n).cut(0.05) - 1, five) << n;
    EXPECT_EQ(SignedRank(n).cut(0.01) - 1, one) << n;
  }
  EXPECT_EQ(SignedRank(5).cut(0.05), 0);  // five rounds can show nothing at 5 %
}

// Catches: a jump where the approximation takes over. It may err only to the side of no finding.
TEST(SignedRank, TheNormalApproximationContinuesTheExactOne) {
  const SignedRank exact(SignedRank::kExact), normal(SignedRank::kExact + 1);
  for (const double level : {0.2, 0.05, 0.01, 0.001}) {
    const auto standardized = [level](const SignedRank& null) {
      const double n = null.n();
      const double deviation = std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
      return (static_cast<double>(null.cut(level)) - n * (n + 1) / 4) / deviation;
    };
    EXPECT_NEAR(standardized(exact), standardized(normal), 0.08) << level;
    EXPECT_LE(standardized(normal), standardized(exact) + 0.01) << level;
  }
}

TEST(SignedRank, NormalQuantileInvertsTheNormalDistribution) {
  for (const double p : {1e-12, 1e-5, 0.025, 0.5, 0.9})
    EXPECT_NEAR(normal_at_most(normal_quantile(p)) / p, 1, 1e-9) << p;
  EXPECT_NEAR(normal_quantile(0.975), 1.959964, 1e-6);
}

}  // namespace
}  // namespace lockstep::perf
