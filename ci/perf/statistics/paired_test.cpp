// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/statistics/paired.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "ci/perf/statistics/holm.h"
#include "ci/perf/statistics/noise.h"

namespace lockstep::perf {
namespace {

using Values = std::vector<double>;

Paired compared(const Values& d, double level) {
  return compare(d, SignedRank(static_cast<int>(d.size())), level);
}

// p under every choice of signs of these differences, ascending: all that a coin could have made of them.
Values by_every_sign(const Values& d) {
  Values all;
  for (uint64_t signs = 0; signs < (uint64_t{1} << d.size()); ++signs) {
    Values turned = d;
    for (size_t i = 0; i < d.size(); ++i)
      if ((signs >> i & 1) != 0) turned[i] = -turned[i];
    all.push_back(compared(turned, 0.05).p);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Depression scores of nine patients before and after a drug, Hollander and Wolfe's example.
TEST(Paired, AgreesWithAPublishedExample) {
  const Values before = {1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30};
  const Values after = {0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29};
  Values d;
  for (size_t i = 0; i < before.size(); ++i) d.push_back(after[i] - before[i]);
  const Paired found = compared(d, 0.04);
  EXPECT_NEAR(found.p, 0.0390625, 1e-12);
  EXPECT_NEAR(found.effect, -0.46, 1e-9);
  EXPECT_NEAR(found.low, -0.786, 1e-9);
  EXPECT_NEAR(found.high, -0.010, 1e-9);
}

// Catches: a p that is too small. The share of sign choices with a p of at most x is at most x, with ties and
// zeros too, and without them it is x for each x that occurs.
TEST(Paired, PIsAChance) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 60; ++trial) {
    Values d;
    for (int i = 0; i < 2 + trial % 9; ++i) d.push_back(normal(random));
    const bool ties = trial % 2 == 0;
    if (ties)
      for (double& x : d) x = std::round(2 * x);
    const Values all = by_every_sign(d);
    for (size_t i = 0; i < all.size(); ++i) {
      if (i + 1 < all.size() && all[i + 1] == all[i]) continue;
      const double share = static_cast<double>(i + 1) / static_cast<double>(all.size());
      EXPECT_LE(share, all[i] + 1e-12);
      EXPECT_TRUE(ties || all[i] == 1 || std::abs(share - all[i]) < 1e-12) << share << " " << all[i];
    }
  }
}

// Law: a shift lies within the interval if and only if the test, at the same level, does not reject it.
TEST(Paired, TheIntervalIsWhatTheTestDoesNotReject) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  for (int trial = 0; trial < 100; ++trial) {
    Values d;
    for (int i = 0; i < 6 + trial % 20; ++i) d.push_back(normal(random));
    const double level = trial % 2 == 0 ? 0.05 : 0.01;
    const Paired whole = compared(d, level);
    const auto rejected = [&](double shift) {
      Values moved;
      for (const double x : d) moved.push_back(x - shift);
      return compared(moved, level).p <= level;
    };
    if (std::isinf(whole.low)) {
      EXPECT_FALSE(rejected(-1e9)) << d.size();
      continue;
    }
    EXPECT_TRUE(rejected(whole.low - 1e-9));
    EXPECT_FALSE(rejected(whole.low + 1e-9));
    EXPECT_FALSE(rejected(whole.high - 1e-9));
    EXPECT_TRUE(rejected(whole.high + 1e-9));
  }
}

TEST(Paired, OfNothingSaysNothing) {
  const Paired none = compared({}, 0.05);
  EXPECT_EQ(none.p, 1);
  EXPECT_EQ(none.low, -std::numeric_limits<double>::infinity());
  const Paired zeros = compared(Values(20, 0.0), 0.05);
  EXPECT_EQ(zeros.p, 1);
  EXPECT_EQ(zeros.low, 0);
  EXPECT_EQ(zeros.high, 0);
}

// Catches: a multiplier off by one, corrected values that do not ascend, members judged elsewhere forgotten.
TEST(Holm, IsStepDown) {
  const Values p = {0.01, 0.04, 0.03, 0.005};
  const auto near = [](const Values& a, const Values& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
  };
  near(holm(p, 4), {0.03, 0.06, 0.06, 0.02});
  near(holm(p, 10), {0.09, 0.28, 0.24, 0.05});
  EXPECT_TRUE(holm({}, 0).empty());
}

// Batches of 20 rounds, each a constant part of the one before it.
Values resembling(double part, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Values batch;
  double state = normal(random);
  for (int i = 0; i < 20; ++i)
    batch.push_back(state = part * state + std::sqrt(1 - part * part) * normal(random));
  return batch;
}

// Catches: a bias of short batches left in, dependence seen where there is none.
TEST(Resemblance, EstimatesTheVarianceOfAMean) {
  std::mt19937_64 random(3);
  Resemblance none, half;
  for (int i = 0; i < 400; ++i) {
    none.add(resembling(0, random));
    half.add(resembling(0.5, random));
  }
  EXPECT_EQ(none.dependence(2), 1);
  EXPECT_NEAR(half.dependence(2), 3, 0.4);
  EXPECT_NEAR(strict_level(0.05, 1), 0.05, 1e-12);
  EXPECT_NEAR(strict_level(0.05, 4), 2 * normal_at_most(2 * normal_quantile(0.025)), 1e-12);
}

}  // namespace
}  // namespace lockstep::perf
