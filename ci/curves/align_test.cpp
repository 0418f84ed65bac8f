// SPDX-License-Identifier: Apache-2.0
#include "ci/curves/align.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::curves {
namespace {

using Sequence = std::vector<uint64_t>;

// The length of the longest common subsequence, by the table that everybody knows.
size_t common(const Sequence& a, const Sequence& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1, 0));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
  return best[a.size()][b.size()];
}

size_t edits(const std::vector<Hunk>& hunks) {
  size_t n = 0;
  for (const auto& h : hunks) n += h.to_a - h.from_a + h.to_b - h.from_b;
  return n;
}

// Whether what lies outside of the hunks is equal, and the hunks are in order and apart.
void expect_script(const Sequence& a, const Sequence& b, const std::vector<Hunk>& hunks) {
  size_t i = 0, j = 0;
  for (const auto& h : hunks) {
    ASSERT_TRUE(h.from_a >= i && h.from_a - i == h.from_b - j);
    ASSERT_TRUE(&h == &hunks.front() || h.from_a > i) << "two hunks touch";
    ASSERT_TRUE(std::equal(a.begin() + static_cast<long>(i), a.begin() + static_cast<long>(h.from_a),
                           b.begin() + static_cast<long>(j)));
    i = h.to_a, j = h.to_b;
  }
  ASSERT_TRUE(
      std::equal(a.begin() + static_cast<long>(i), a.end(), b.begin() + static_cast<long>(j), b.end()));
}

Sequence upto(uint64_t n) {
  Sequence s(n);
  std::iota(s.begin(), s.end(), uint64_t{0});
  return s;
}

// Catches: pairs that are not equal, more edits than are needed, a way back that differs from the way there.
TEST(Align, FewestEditsOnEverySmallPair) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    Sequence a(random() % 14), b(random() % 14);
    for (auto* s : {&a, &b})
      for (auto& x : *s) x = random() % (1 + static_cast<uint64_t>(trial) % 5);
    const auto hunks = align(a, b);
    ASSERT_TRUE(hunks);
    expect_script(a, b, *hunks);
    EXPECT_EQ(edits(*hunks), a.size() + b.size() - 2 * common(a, b));
  }
}

// Catches: a look-ahead that ends before what was added does.
TEST(Align, LongInsertionsAndDeletions) {
  const auto a = upto(10'000);
  auto b = a;
  for (uint64_t i = 0; i < 1000; ++i) b.insert(b.begin() + 5000, 100'000 + i);
  b[100] = 77'777;
  using Hunks = std::vector<Hunk>;
  EXPECT_EQ(align(a, b), (Hunks{{100, 101, 100, 101}, {5000, 5000, 5000, 6000}}));
  EXPECT_EQ(align(b, a), (Hunks{{100, 101, 100, 101}, {5000, 6000, 5000, 5000}}));
  EXPECT_EQ(align(a, {}), (Hunks{{0, 10'000, 0, 0}}));
  EXPECT_EQ(align({}, {}), Hunks{});
}

// Catches: a search that takes all memory, or all night, on two logs that have nothing to do with each other.
TEST(Align, GivesUpWhereItSaysSo) {
  const auto a = upto(kMostEdits), b = Sequence(kMostEdits, 1'000'000);
  EXPECT_FALSE(align(a, b));
  EXPECT_TRUE(align(Sequence(a.begin(), a.begin() + kMostEdits / 2),
                    Sequence(b.begin(), b.begin() + kMostEdits / 2)));
}

}  // namespace
}  // namespace lockstep::curves
