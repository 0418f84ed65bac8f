// SPDX-License-Identifier: Apache-2.0
// Many blocks at once are the blocks one by one, and every value has the scalar functor's bits, whatever the
// instruction set.
#include "kernels/philox_words.h"

#include <gtest/gtest.h>

#include "kernels/testing.h"

namespace lockstep {
namespace {

// Counters and subsequences of all sizes. Catches: a multiply that reads a high half, even and odd places
// exchanged, a key that is not stepped, blocks left out at the end.
TEST(PhiloxWords, AreTheBlocksOneByOne) {
  for (const Simd simd : every_simd())
    for (const int64_t count : {1, 7, 8, 9, 100, 256}) {
      PhiloxWords words;
      std::vector<PhiloxBlock> expected;
      for (int64_t i = 0; i < count; ++i) {
        const auto index = static_cast<uint64_t>(i);
        PhiloxBlock start = philox(5, index, 0);
        if (i % 3 == 0) start[1] = start[3] = 0;
        for (size_t k = 0; k < 4; ++k) words.word[k][i] = start[k];
        expected.push_back(philox(0x123456789abcdef0, uint64_t{start[3]} << 32 | start[2],
                                  uint64_t{start[1]} << 32 | start[0]));
      }
      generate(0x123456789abcdef0, words, count, simd);
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(words.block(i), expected[static_cast<size_t>(i)]) << i << " of " << count;
    }
}

// Catches: arguments exchanged or cut to 32 bits, blocks left out at the end.
TEST(PhiloxWords, AreThoseOfAnotherFunction) {
  const BlockFunction given = [](uint64_t seed, uint64_t subsequence, uint64_t counter) -> PhiloxBlock {
    return {static_cast<uint32_t>(seed), static_cast<uint32_t>(subsequence >> 32),
            static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32)};
  };
  PhiloxWords words;
  for (uint32_t i = 0; i < 9; ++i)
    for (uint32_t k = 0; k < 4; ++k) words.word[k][i] = 10 * k + i;
  generate_by(given, 77, words, 9);
  for (uint32_t i = 0; i < 9; ++i) EXPECT_EQ(words.block(i), (PhiloxBlock{77, 30 + i, i, 10 + i}));
}

// A whole tensor for each distribution and dtype.
void expect_scalar_bits(const PhiloxSweep& plan) {
  const int64_t n = plan.launches[0].count;
  const StreamImage image{{{{{{0, n, 0}}, 1, 1}}, 0}};
  for (const Distribution& d : every_distribution())
    for (const Simd simd : every_simd()) {
      const size_t size = value_bytes(d, {{}, 0}).size();
      std::vector<unsigned char> out(size * static_cast<size_t>(n));
      ASSERT_TRUE(fill(d, plan, image, out.data(), simd));
      for (int64_t j = 0; j < n; ++j) {
        const auto expected = value_bytes(d, block_lane(plan, j, lanes_of(d)));
        ASSERT_EQ(std::memcmp(expected.data(), out.data() + size * static_cast<size_t>(j), size), 0)
            << static_cast<int>(d.values) << " " << d.dtype << " simd " << static_cast<int>(simd) << " at "
            << j;
      }
    }
}

// 50,000 elements in a launch of 8,192 threads. Catches: a conversion, square root, logarithm or rounding
// that differs between scalar and vector instructions; a fused multiply-add that is not one.
TEST(PhiloxWords, ValuesHaveTheScalarBitsOnEveryPath) {
  expect_scalar_bits({77, {{0, 50000, 8192, 3, 0}}, 1});
}

// Catches: a fill that takes Philox's words where others are given.
TEST(PhiloxWords, ValuesOfAnotherFunctionHaveTheScalarBits) {
  const BlockFunction ends = [](uint64_t, uint64_t thread, uint64_t counter) -> PhiloxBlock {
    const uint32_t x = thread % 3 == 0 ? 0 : 0u - static_cast<uint32_t>(thread % 7);
    return {x, static_cast<uint32_t>(counter), ~x, 0x80000000};
  };
  expect_scalar_bits({77, {{0, 3000, 512, 3, 0}}, 1, ends});
}

// Words whose values lie at the ends of an interval or between two roundings. Catches: a vector conversion of
// unsigned words that is signed, or rounds twice.
TEST(PhiloxWords, ExtremeWordsHaveTheScalarBits) {
  const uint32_t corners[] = {0,          1,          0x7f,       0x80,       0x7fffffff, 0x80000000,
                              0x80000080, 0x80000081, 0x800000c0, 0xffffff7f, 0xffffff80, 0xffffffff};
  PhiloxWords words;
  int64_t count = 0;
  for (const uint32_t x : corners)
    for (const uint32_t y : corners) {
      const PhiloxBlock block{x, y, y, x};
      for (size_t k = 0; k < 4; ++k) words.word[k][count] = block[k];
      ++count;
    }
  const NormalValue<float> normal(0.5, 2);
  const UniformValue<double> uniform(-1, 3);
  for (const Simd simd : every_simd()) {
    float normals[kPhiloxBatch];
    double uniforms[kPhiloxBatch];
    with_simd(simd, [&] {
      for (int64_t i = 0; i < count; ++i) normals[i] = normal.value(words.block(i), 1);
      for (int64_t i = 0; i < count; ++i) uniforms[i] = uniform.value(words.block(i), 0);
    });
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(normals[i], normal.value(words.block(i), 1)) << i;
      EXPECT_EQ(uniforms[i], uniform.value(words.block(i), 0)) << i;
    }
  }
}

}  // namespace
}  // namespace lockstep
