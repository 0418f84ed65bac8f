// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/random_permutation.h"

#include <gtest/gtest.h>

#include <numeric>

#include "oracle/random/random_simulation_thread.h"
#include "oracle/random/testing.h"

namespace lockstep::oracle {
namespace {

RandomCall permutation_of(int64_t n, c10::ScalarType dtype = at::kLong) {
  return call_of(RandomKind::kRandperm, dtype, {n});
}

// Would catch: a formula of the bits that is off where its logarithm passes an integer, above all between
// 32-bit and 64-bit keys.
TEST(RandomPermutation, BitsOfKeys) {
  EXPECT_EQ(permutation_bits(1), 3);
  EXPECT_EQ(permutation_bits(2), 5);
  EXPECT_EQ(permutation_bits(1000), 23);
  EXPECT_EQ(permutation_bits(30000), 32);
  EXPECT_EQ(permutation_bits(30083), 32);
  EXPECT_EQ(permutation_bits(30084), 33);
  EXPECT_EQ(permutation_bits(int64_t{1} << 31), 64);
}

// Digests of an independent implementation, seed 1234, offset 8. Would catch: keys of another range or width,
// an order that is not stable or not by the low bits; for n = 25000, all 32 bits compared without the sign.
TEST(RandomPermutation, KnownAnswers) {
  struct Row {
    int64_t n;
    uint64_t advance, digest;
  };
  for (const auto& row :
       {Row{1, 8, 0xa8c7f832281a39c5}, Row{2, 8, 0x692558b056101a44}, Row{3, 8, 0xb026cb457020ada6},
        Row{10, 16, 0x54003379b2512a64}, Row{1000, 1004, 0xeef3f8b5a34d677d},
        Row{25000, 25004, 0x30dee67f24d100f1}, Row{40000, 40004, 0x0939269e054c60d9}}) {
    RandomState state{1234, 8};
    const auto out = at::empty({row.n}, at::kLong);
    SimulatedSource().fill(permutation_of(row.n), out, {}, state);
    EXPECT_EQ(fnv(out), row.digest) << row.n;
    EXPECT_EQ(state.offset, 8 + row.advance) << row.n;
  }
  const DeviceModel one_block{1, 256};
  EXPECT_EQ(fnv(draw(permutation_of(3000), {1234, 8}, one_block)), 0x4e79fdd54d839b81);
  EXPECT_EQ(advanced(permutation_of(3000), one_block), 3024U);
  EXPECT_EQ(advanced(permutation_of(0)), 0U);
}

// 200 seeds, nine of them with equal keys. Would catch: islands left as they are, or shuffled by words of the
// offset at which the keys were drawn.
TEST(RandomPermutation, EqualKeysOccur) {
  const DeviceModel one_block{1, 256};
  std::vector<at::Tensor> all;
  for (uint64_t seed = 0; seed < 200; ++seed) all.push_back(draw(permutation_of(6), {seed, 4}, one_block));
  EXPECT_EQ(fnv(at::cat(all)), 0x897878b1bc35fba5);
}

// Would catch: another dtype with another permutation; memory with gaps filled as if it had none.
TEST(RandomPermutation, DtypesHoldTheSamePermutation) {
  const auto expected = draw(permutation_of(100), {5, 0});
  EXPECT_TRUE(std::get<0>(expected.sort()).equal(at::arange(100)));
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kInt, at::kShort, at::kChar, at::kByte})
    EXPECT_TRUE(draw(permutation_of(100, dtype), {5, 0}).to(at::kLong).equal(expected));
  auto strided = permutation_of(100);
  strided.stride = {3};
  EXPECT_TRUE(draw(strided, {5, 0}).equal(expected));
}

// Would catch: a sort that looks at bits above those given, loses the order of equals, or takes the sign of
// whole keys for their highest bit.
TEST(RandomPermutation, SortsByLowBits) {
  std::vector<int32_t> keys{0x75, 0x21, -1, 0x12, 0x31, 0x05};
  EXPECT_EQ(sort_by_keys(keys, 4), (std::vector<int64_t>{1, 4, 3, 0, 5, 2}));
  EXPECT_EQ(keys, (std::vector<int32_t>{0x21, 0x31, 0x12, 0x75, 0x05, -1}));
  std::vector<int32_t> whole{3, -1, 0, INT32_MIN, INT32_MAX};
  EXPECT_EQ(sort_by_keys(whole, 32), (std::vector<int64_t>{3, 1, 2, 0, 4}));
  std::vector<int64_t> wide{3, -1, 0, INT64_MIN, INT64_C(1) << 33};
  EXPECT_EQ(sort_by_keys(wide, 33), (std::vector<int64_t>{2, 3, 4, 0, 1}));
}

// Islands at the start, in the middle and at the end, one longer than the words of a block. Would catch: a
// leader that is not the first, words of another thread, curand4 in place of curand, the last island missed.
TEST(RandomPermutation, LeadersShuffleTheirIslands) {
  const std::vector<int64_t> keys{0x10, 0x20, 1, 2, 2, 2, 2, 2, 2, 2, 3, 4, 0x104};
  std::vector<int64_t> data(keys.size());
  std::iota(data.begin(), data.end(), int64_t{100});
  auto expected = data;
  const auto shuffle = [&](size_t first, size_t size) {
    const uint64_t offset = 40;
    for (size_t i = size - 1, k = 0; i > 0; --i, ++k) {
      const auto word = ThreadGenerator(9, first, offset + k / 4 * 4).next()[k % 4];
      std::swap(expected[first + i], expected[first + word % (i + 1)]);
    }
  };
  shuffle(0, 2);  // 0x10 and 0x20 agree in the four bits that are compared
  shuffle(3, 7);
  shuffle(11, 2);
  shuffle_islands(keys, 4, {9, 40}, data);
  EXPECT_EQ(data, expected);
  EXPECT_EQ(islands_reserve(13), 16U);
}

}  // namespace
}  // namespace lockstep::oracle
