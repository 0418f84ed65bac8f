// SPDX-License-Identifier: Apache-2.0
// Log-normal, exponential, Cauchy and geometric values: the written formulas bit by bit, the true functions,
// the ends.
#include "kernels/transformed_values.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "kernels/testing.h"

namespace lockstep {
namespace {

template <class T>
void digest(uint64_t& hash, T value) {
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  for (const auto byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
}

// FNV-1a of all lanes of blocks philox(0, t, 0), t = 0 … 999.
template <class G>
uint64_t digest_of(const G& distribution) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint64_t thread = 0; thread < 1000; ++thread)
    for (const auto value : all_lanes(distribution, philox(0, thread, 0))) digest(hash, value);
  return hash;
}

// The digests are of an implementation of README.md in exact rational arithmetic. Catches: any change of a
// formula, however small.
TEST(TransformedValues, BitsOfTheWrittenFormulas) {
  EXPECT_EQ(digest_of(LogNormalValue<float>(0.25, 1.5)), 0x14563b1ab0987b0e);
  EXPECT_EQ(digest_of(LogNormalValue<double>(0.25, 1.5)), 0x59c339a2d7f7ca7f);
  EXPECT_EQ(digest_of(ExponentialValue<float>(1.5)), 0x7b0eddff3540331d);
  EXPECT_EQ(digest_of(ExponentialValue<double>(1.5)), 0xb0118817a613c26f);
  EXPECT_EQ(digest_of(CauchyValue<float>(0.5, 2)), 0xcda918e7476befca);
  EXPECT_EQ(digest_of(CauchyValue<double>(0.5, 2)), 0x23bbd80b777260d9);
  EXPECT_EQ(digest_of(GeometricValue<float>(0.3)), 0x4806b77fce9b6ded);
  EXPECT_EQ(digest_of(GeometricValue<double>(0.3)), 0x26f582926b0b7e35);
}

// Catches: a mistyped coefficient, the wrong reduction or power of two.
TEST(TransformedValues, FunctionsAreCloseToTheTrueOnes) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const PhiloxBlock w = philox(3, i, 0);
    const double x = (uniform64(w[0], w[1]) - 0.5) * 1400;
    EXPECT_NEAR(exp64(x), std::exp(x), 4e-16 * std::exp(x)) << x;
    const double angle = (uniform64(w[2], w[3]) - 0.5) * 3.14;
    EXPECT_NEAR(tan64(angle), std::tan(angle), 1e-15 * std::abs(std::tan(angle))) << angle;
  }
  EXPECT_EQ(exp64(0), 1);
  EXPECT_EQ(exp64(710), std::numeric_limits<double>::infinity());
  EXPECT_EQ(exp64(-746), 0);
  EXPECT_EQ(exp64(-745), std::exp(-745.0));  // the smallest subnormal
  EXPECT_TRUE(std::isnan(exp64(std::nan(""))));
}

// Catches: an exponential of 0, which stock excludes since weights are divided by it; a tangent of pi/2.
TEST(TransformedValues, EndsAreFiniteAndPositive) {
  const PhiloxBlock largest{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, smallest{};
  const PhiloxBlock largest53{0x001fffff, 0xffffffff, 0x001fffff, 0xffffffff};  // all 53 bits
  EXPECT_EQ(ExponentialValue<float>(2).value(largest, 0), 0x1p-25f);
  EXPECT_EQ(ExponentialValue<double>(2).value(largest53, 0), 0x1p-54);
  EXPECT_NEAR(ExponentialValue<float>(1).value(smallest, 0), 33 * 0.6931472, 1e-5);
  for (const auto& block : {largest, largest53, smallest})
    EXPECT_LT(std::abs(CauchyValue<float>(0, 1).value(block, 3)), 1e7f);
  // In double nothing is cut off.
  const double half_pi = 0x1.921fb54442d18p+0;
  EXPECT_DOUBLE_EQ(CauchyValue<double>(0, 1).value(largest53, 1), std::tan(half_pi));
  EXPECT_DOUBLE_EQ(CauchyValue<double>(0, 1).value(smallest, 1), std::tan(2 * half_pi * (0x1p-54 - 0.5)));
}

// Catches: a division by the logarithm of 0; integers that do not come by way of int64.
TEST(TransformedValues, GeometricCountsTrials) {
  const PhiloxBlock block = philox(0, 0, 0);
  EXPECT_EQ(GeometricValue<float>(1).value(block, 0), 1.0f);
  EXPECT_EQ(GeometricValue<int8_t>(1 - 1e-12).value(block, 0), 1);  // 1 in float32
  EXPECT_EQ(GeometricValue<int64_t>(0.3).value(block, 0), 3);
  EXPECT_EQ(GeometricValue<int8_t>(1e-4).value(block, 0),
            static_cast<int8_t>(static_cast<int64_t>(GeometricValue<float>(1e-4).value(block, 0))));
  EXPECT_EQ(GeometricValue<int64_t>(0.3).value({0xffffffff, 0, 0, 0}, 0), 0);  // u == 1
}

}  // namespace
}  // namespace lockstep
