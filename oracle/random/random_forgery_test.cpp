// SPDX-License-Identifier: Apache-2.0
// Forged words are those of the law in README.md, and the simulated kernels draw them.
#include "oracle/random/random_forgery.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

Words words(RandomWords kind, uint64_t seed, uint64_t subsequence, uint64_t block) {
  return thread_of({seed, 4 * block, kind}, subsequence).next();
}

// The list of the README, in its order.
constexpr uint32_t kListed[] = {0x00000000, 0x00000001, 0x000001ff, 0x00000200, 0x001fffff, 0x3fffffff,
                                0x40000000, 0x7fffff80, 0x7fffffff, 0x80000000, 0xc0000000, 0xfffffe00,
                                0xffffff00, 0xffffff7f, 0xffffff80, 0xffffffff};

// Would catch: an edge lost or moved, a pair of them that no block has, a seed, subsequence or block that is
// not asked.
TEST(RandomForgery, WordsAreThoseOfTheLaw) {
  const Words first{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};  // Philox's of seed 0
  EXPECT_EQ(words(RandomWords::kPhilox, 0, 0, 0), first);
  EXPECT_EQ(words(RandomWords::kEqual, 0, 9, 11), first);
  EXPECT_EQ(words(RandomWords::kZeros, 1, 2, 3), Words{});
  EXPECT_EQ(words(RandomWords::kOnes, 1, 2, 3), (Words{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}));
  for (uint64_t outer = 0; outer < 16; ++outer)
    for (uint64_t inner = 0; inner < 16; ++inner) {
      const uint32_t x = kListed[outer], y = kListed[inner];
      EXPECT_EQ(words(RandomWords::kEdges, 0, outer, inner), (Words{x, y, y, x})) << outer << " " << inner;
      EXPECT_EQ(words(RandomWords::kEdges, outer, 0, inner), (Words{x, y, y, x})) << outer << " " << inner;
    }
}

// Would catch: a kernel whose threads draw Philox's words whatever the state says.
TEST(RandomForgery, KernelsDrawThem) {
  const auto all = [](RandomKind kind, c10::ScalarType dtype, RandomWords forged) {
    return draw(call_of(kind, dtype, {300}, 0.25), {7, 4, forged}, {1, 256});
  };
  const auto equal_to = [](const at::Tensor& t, double x) { return t.eq(x).all().item<bool>(); };
  EXPECT_TRUE(equal_to(all(RandomKind::kUniform, at::kFloat, RandomWords::kOnes), 0.25));  // not the end
  EXPECT_TRUE(equal_to(all(RandomKind::kBernoulli, at::kFloat, RandomWords::kOnes), 0));
  EXPECT_TRUE(equal_to(all(RandomKind::kBernoulli, at::kFloat, RandomWords::kZeros), 1));
  EXPECT_TRUE(equal_to(all(RandomKind::kDropoutMask, at::kFloat, RandomWords::kOnes), 0));
  const auto order =
      draw(call_of(RandomKind::kRandperm, at::kLong, {5}), {7, 4, RandomWords::kZeros}, {1, 256});
  EXPECT_TRUE(order.equal(at::tensor({1, 2, 3, 4, 0}, at::kLong)));
}

}  // namespace
}  // namespace lockstep::oracle
