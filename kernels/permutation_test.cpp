// SPDX-License-Identifier: Apache-2.0
// Keys to permutations, against the same written as the stock kernel runs: thread by thread.
#include "kernels/permutation.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Each place decides by its neighbours whether it leads a run, and the leader shuffles it.
std::vector<int64_t> shuffled_by_leaders(const std::vector<uint64_t>& keys, uint64_t seed, uint64_t counter) {
  std::vector<int64_t> order = stable_order(keys);
  std::vector<uint64_t> sorted;
  for (const int64_t i : order) sorted.push_back(keys[static_cast<size_t>(i)]);
  const size_t n = keys.size();
  for (size_t thread = 0; thread + 1 < n; ++thread) {
    if (sorted[thread] != sorted[thread + 1]) continue;
    if (thread > 0 && sorted[thread] == sorted[thread - 1]) continue;
    size_t size = 0;
    while (thread + size < n && sorted[thread + size] == sorted[thread]) ++size;
    std::vector<uint32_t> words;
    for (uint64_t block = 0; block <= size / 4; ++block)
      for (const uint32_t word : philox(seed, thread, counter + block)) words.push_back(word);
    for (size_t i = size - 1, drawn = 0; i > 0; --i, ++drawn) {
      const size_t r = words[drawn] % (i + 1);
      if (i != r) std::swap(order[thread + i], order[thread + r]);
    }
  }
  return order;
}

// Runs of one to a hundred equal keys. Catches: a run's last element left out, words counted over runs, the
// subsequence of an element in place of its place.
TEST(Permutation, EqualKeysAreShuffledByTheirLeader) {
  for (const uint64_t kinds : {1, 2, 7, 40, 1000000}) {
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < 100; ++i) keys.push_back(philox(3, i, kinds)[0] % kinds);
    std::vector<int64_t> order = stable_order(keys);
    shuffle_equal_keys(keys, 11, 5, order);
    EXPECT_EQ(order, shuffled_by_leaders(keys, 11, 5)) << kinds;
  }
  std::vector<int64_t> none;
  shuffle_equal_keys({}, 1, 0, none);
  EXPECT_TRUE(none.empty());
}

// A radix sort flips the sign bit, which matters only if it is among the bits sorted by. Catches: an unsigned
// order of whole keys, a signed one of their low bits.
TEST(Permutation, WholeKeysAreSigned) {
  EXPECT_LT(sort_key(-1, 32, 32), sort_key(0, 32, 32));
  EXPECT_LT(sort_key(-5, 64, 64), sort_key(3, 64, 64));
  EXPECT_GT(sort_key(-1, 31, 32), sort_key(0, 31, 32));
  EXPECT_EQ(sort_key(-1, 7, 32), 127u);
  EXPECT_EQ(sort_key(0x100, 8, 64), 0u);
}

// Catches: a sort that exchanges equal keys.
TEST(Permutation, OrderIsStable) {
  EXPECT_EQ(stable_order({2, 1, 2, 1, 0}), (std::vector<int64_t>{4, 1, 3, 0, 2}));
}

}  // namespace
}  // namespace lockstep
