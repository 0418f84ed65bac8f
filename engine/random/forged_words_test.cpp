// SPDX-License-Identifier: Apache-2.0
// Forged words are those of the law in oracle/README.md, and a draw is made of them.
#include "engine/random/forged_words.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/random/random.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

at::Tensor drawn(RandomKind kind, c10::ScalarType dtype, int64_t n, const RandomState& state) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  if (kind == RandomKind::kExponential) call.a = 1;
  call.shape = {n};
  call.stride = {1};
  return draw_local(call, owned_whole(call.shape), call.stride, state, {1, 256});
}

// Catches: an edge lost or moved, a pair of them that no block has, a seed, subsequence or counter that is
// not asked, words of one kind taken for another's.
TEST(ForgedWords, AreThoseOfTheLaw) {
  const PhiloxBlock first{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};  // Philox's of seed 0
  EXPECT_EQ(block_function(RandomWords::kPhilox)(0, 0, 0), first);
  EXPECT_EQ(block_function(RandomWords::kZeros)(1, 2, 3), PhiloxBlock{});
  EXPECT_EQ(block_function(RandomWords::kOnes)(1, 2, 3),
            (PhiloxBlock{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}));
  EXPECT_EQ(block_function(RandomWords::kEqual)(0, 77, 5), first);
  const auto edges = block_function(RandomWords::kEdges);
  EXPECT_EQ(edges(0, 0, 0), PhiloxBlock{});
  EXPECT_EQ(edges(0, 4, 15), (PhiloxBlock{0x001fffff, 0xffffffff, 0xffffffff, 0x001fffff}));
  EXPECT_EQ(edges(1, 2, 0), (PhiloxBlock{0x200, 0, 0, 0x200}));
  EXPECT_EQ(edges(~uint64_t{0}, 1, 0), PhiloxBlock{});  // numbers wrap
  std::set<PhiloxBlock> all;
  for (uint64_t t = 0; t < 16; ++t)
    for (uint64_t c = 0; c < 16; ++c) all.insert(edges(5, t, c));
  EXPECT_EQ(all.size(), 256u);
}

// Catches: a fill or a shuffle that takes Philox's words whatever the state says; the end of an interval that
// sampling meets once in 2^25 draws.
TEST(ForgedWords, AreWhatADrawIsMadeOf) {
  const RandomState zeros{3, 8, RandomWords::kZeros}, ones{3, 8, RandomWords::kOnes};
  EXPECT_TRUE(drawn(RandomKind::kUniform, at::kFloat, 300, ones).eq(0).all().item<bool>());
  EXPECT_TRUE(drawn(RandomKind::kUniform, at::kFloat, 300, zeros).eq(0x1p-33).all().item<bool>());
  EXPECT_TRUE(drawn(RandomKind::kRandom, at::kInt, 300, ones).eq(0x7fffffff).all().item<bool>());
  EXPECT_TRUE(drawn(RandomKind::kNormal, at::kFloat, 300, zeros).abs().lt(7).all().item<bool>());
  EXPECT_TRUE(drawn(RandomKind::kExponential, at::kFloat, 300, ones).gt(0).all().item<bool>());
  // Keys are equal, so that all of them are one run; the word 0 exchanges each place with the run's first.
  EXPECT_TRUE(
      drawn(RandomKind::kRandperm, at::kLong, 5, zeros).equal(at::tensor({1, 2, 3, 4, 0}, at::kLong)));
}

}  // namespace
}  // namespace lockstep
