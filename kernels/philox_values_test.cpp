// SPDX-License-Identifier: Apache-2.0
// Words to values: published outputs of torch.cuda, interval ends, rounding to narrow dtypes, the normal
// formula.
#include "kernels/philox_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/testing.h"

namespace lockstep {
namespace {

// torch.rand(6, device="cuda") after manual_seed(0). Catches: a wrong scale or half step, or the bounds not
// reversed.
TEST(UniformValue, PublishedValuesOfSeedZero) {
  const UniformValue<float> uniform(0, 1);
  const double published[] = {.39904648, .51667917, .02493039, .94007939, .94585413, .79673123};
  for (uint64_t thread = 0; thread < 6; ++thread)
    EXPECT_NEAR(uniform.value(philox(0, thread, 0), 0), published[thread], 5.1e-9) << thread;
}

// u is 1 for the 128 largest words only, and uniform_ turns that into `from`. Catches: [0, 1) or (0, 1]
// confused.
TEST(UniformValue, TheUpperBoundBecomesTheLower) {
  EXPECT_EQ(uniform32(0), 0x1p-33f);
  EXPECT_EQ(uniform32(0xffffffff), 1.0f);
  EXPECT_EQ(uniform32(0xffffff80), 1.0f);
  EXPECT_LT(uniform32(0xffffff7f), 1.0f);
  const UniformValue<float> uniform(-2, 3);
  EXPECT_EQ(uniform.value({0xffffffff, 0, 0, 0}, 0), -2.0f);
  EXPECT_EQ(uniform.value({0, 0xffffffff, 0, 0}, 1), -2.0f);
}

// In bf16 the bounds and their difference are rounded first and many values round up to `to`. Catches:
// computing in float throughout and casting at the end.
TEST(UniformValue, NarrowDtypesRoundBoundsFirst) {
  const UniformValue<c10::BFloat16> uniform(0.1, 0.3);
  EXPECT_EQ(static_cast<float>(uniform.from), 0.10009765625f);
  EXPECT_EQ(static_cast<float>(uniform.to), 0.30078125f);
  EXPECT_EQ(uniform.range, 0.201171875f);
  EXPECT_EQ(uniform.value({0xfff00000, 0, 0, 0}, 0), uniform.from);
}

// One rounding of u * range + from. Catches: multiply and add rounded apart, which differs in half of all
// values.
TEST(UniformValue, UsesOneRounding) {
  const UniformValue<float> uniform(-0.1, 0.1);
  int apart = 0;
  for (uint64_t thread = 0; thread < 1000; ++thread) {
    const PhiloxBlock block = philox(7, thread, 0);
    const double exact = static_cast<double>(uniform32(block[0])) * static_cast<double>(uniform.range) +
                         static_cast<double>(uniform.from);
    const float rounded = static_cast<float>(exact);  // 48 + 24 bits: exact but for rare ties
    EXPECT_EQ(uniform.value(block, 0), rounded == uniform.to ? uniform.from : rounded);
    const float product = uniform32(block[0]) * uniform.range;
    apart += uniform.value(block, 0) != product + uniform.from;
  }
  EXPECT_GT(apart, 300);
}

// torch.randn(10, device="cuda") after manual_seed(0), four printed decimals. Catches: sine and cosine
// exchanged, the wrong word as the angle.
TEST(NormalValue, PublishedValuesOfSeedZero) {
  const NormalValue<float> normal(0, 1);
  const double published[] = {-.9247, -.4253, -2.6438, .1452,   -.1209,
                              -.5797, -.6229, -.3284,  -1.0745, -.3631};
  for (uint64_t thread = 0; thread < 10; ++thread)
    EXPECT_NEAR(normal.value(philox(0, thread, 0), 0), published[thread], 5.1e-5) << thread;
}

// FNV-1a over the bytes of a value.
template <class T>
void digest(uint64_t& hash, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    unsigned char byte;
    std::memcpy(&byte, reinterpret_cast<const char*>(&value) + i, 1);
    hash = (hash ^ byte) * 0x100000001b3;
  }
}

// The bits of the formula in README.md, from an implementation of that text in exact rational arithmetic.
// Catches: any change of the formula, however small.
TEST(NormalValue, BitsOfTheWrittenFormula) {
  const NormalValue<float> normal(0, 1);
  const NormalValue<double> wide(0, 1);
  const auto floats = all_lanes(normal, philox(0, 0, 0));
  const uint32_t bits[] = {0xbf6cb6ad, 0x3f7dbb34, 0xbef6d1b7, 0xbf1e1b9d};
  for (size_t lane = 0; lane < 4; ++lane)
    EXPECT_EQ(std::bit_cast<uint32_t>(floats[lane]), bits[lane]) << lane;
  const auto doubles = all_lanes(wide, philox(0, 0, 0));
  EXPECT_EQ(std::bit_cast<uint64_t>(doubles[0]), 0xbfd3dd8613bc203a);
  EXPECT_EQ(std::bit_cast<uint64_t>(doubles[1]), 0xbfd97360dc4ab0f5);
  uint64_t hash = 0xcbf29ce484222325, hash64 = hash;
  for (uint64_t thread = 0; thread < 1000; ++thread) {
    for (float z : all_lanes(normal, philox(0, thread, 0))) digest(hash, z);
    for (double z : all_lanes(wide, philox(0, thread, 0))) digest(hash64, z);
  }
  EXPECT_EQ(hash, 0x89798bb5424833fd);
  EXPECT_EQ(hash64, 0x75ff63c4212fe5f6);
}

// Catches: a mistyped coefficient (any one costs more than these bounds).
TEST(NormalMath, IsCloseToTheTrueFunctions) {
  for (uint64_t i = 0; i < 20000; ++i) {
    const PhiloxBlock w = philox(3, i, 0);
    const float u = uniform32(w[0]);
    const double l = std::log(static_cast<double>(u));
    EXPECT_NEAR(log32(u), l, 1.1e-7 * std::abs(l) + 1e-12);
    const double d = uniform64(w[0], w[1]);
    EXPECT_NEAR(log64(d), std::log(d), 4e-16 * std::abs(std::log(d)));
    const float angle = u * 6.2831853f;
    EXPECT_NEAR(sincos32(angle).sin, std::sin(static_cast<double>(angle)), 6e-8);
    EXPECT_NEAR(sincos32(angle).cos, std::cos(static_cast<double>(angle)), 6e-8);
    const long double exact = 2.0L * static_cast<long double>(d) * 3.14159265358979323846264L;
    EXPECT_NEAR(sincos64_pi(2 * d).sin, static_cast<double>(sinl(exact)), 4e-16);
    EXPECT_NEAR(sincos64_pi(2 * d).cos, static_cast<double>(cosl(exact)), 4e-16);
  }
}

// The extremes of both words give finite values. Catches: log of 0, an angle beyond the last quadrant.
TEST(NormalMath, ExtremesAreFinite) {
  for (uint32_t x : {0u, 1u, 0x7fffffffu, 0xffffffffu})
    for (uint32_t y : {0u, 1u, 0x3fffffffu, 0x7fffffffu, 0xffffffffu}) {
      EXPECT_LT(std::abs(normal_pair32(x, y).sin), 6.8f);
      EXPECT_LT(std::abs(normal_pair64({x, x, y, y}).cos), 8.7);
    }
  EXPECT_EQ(log32(1.0f), 0.0f);
  EXPECT_EQ(log64(1.0), 0.0);
}

// Catches: the two words of a 64-bit value exchanged, a modulus in 32 bits, `low` not added.
TEST(IntegerValue, UsesOneOrTwoWords) {
  const PhiloxBlock block{0x12345678, 0x9abcdef0, 0xffffffff, 0x80000001};
  EXPECT_EQ((IntegerValue<int64_t, 4>(-5, 95).value(block, 2)), int64_t{0xffffffff} % 100 - 5);
  const int64_t range = int64_t{1} << 40;
  EXPECT_EQ((IntegerValue<int64_t, 2>(-7, range - 7).value(block, 0)),
            static_cast<int64_t>(0x123456789abcdef0ull % (uint64_t{1} << 40)) - 7);
  EXPECT_EQ(
      (IntegerValue<int64_t, 2>(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())
           .value(block, 1)),
      static_cast<int64_t>(0xffffffff80000001ull % ~uint64_t{0} + (uint64_t{1} << 63)));
  EXPECT_EQ(static_cast<float>(IntegerValue<c10::BFloat16, 4>(0, 200).value(block, 2)),
            static_cast<float>(0xffffffffu % 200));
}

// A range of 2^64 is written as 0. Catches: a division by 0, or the word cut to the narrow dtype's integers.
TEST(IntegerValue, TheWholeRangeIsTheWord) {
  const PhiloxBlock block{0x92345678, 0x9abcdef0, 0xffffffff, 0x80000001};
  EXPECT_EQ((IntegerValue<int64_t, 2>(0, 0).value(block, 0)), static_cast<int64_t>(0x923456789abcdef0));
  EXPECT_EQ((IntegerValue<float, 2>(0, 0).value(block, 1)), -0x0.7fffffffp32f);
  EXPECT_EQ((IntegerValue<int32_t, 4>(0, int64_t{1} << 31).value(block, 3)), 1);
}

// Catches: a slope computed in float, or not rounded to the dtype first.
TEST(SlopeValue, StretchesTheRoundedNumberInDouble) {
  const SlopeValue<c10::BFloat16> slope(0.125, 1.0 / 3);
  const auto u = static_cast<double>(static_cast<c10::BFloat16>(uniform32(0x12345678)));
  EXPECT_EQ(slope.value({0x12345678, 0, 0, 0}, 0),
            static_cast<c10::BFloat16>(static_cast<float>(u * (1.0 / 3 - 0.125) + 0.125)));
  const double wide = uniform64(5, 6);
  EXPECT_EQ(SlopeValue<double>(-1, 2).value({0, 0, 5, 6}, 1), wide * 3 - 1);
  EXPECT_EQ(UniformWord<double>().value({0, 0, 5, 6}, 2), static_cast<double>(uniform32(5)));
}

// The integer threshold of p = 0.1, known from the formula. Catches: <= for <, 1 - p in float.
TEST(KeepValue, ThresholdOfTenPercent) {
  const KeepValue<float> keep(0.1);
  EXPECT_TRUE(keep.value({0xe666657f, 0, 0, 0}, 0));
  EXPECT_FALSE(keep.value({0xe6666580, 0, 0, 0}, 0));
}

// Strictly less. Catches: <=, which keeps u == p.
TEST(BernoulliValue, IsStrict) {
  const float u = uniform32(0x40000000);
  EXPECT_EQ(BernoulliValue<float>(static_cast<double>(u)).value({0x40000000, 0, 0, 0}, 0), 0.0f);
  EXPECT_EQ(BernoulliValue<float>(std::nextafter(u, 1.0f)).value({0x40000000, 0, 0, 0}, 0), 1.0f);
  EXPECT_TRUE(BernoulliValue<bool>(1).value({0, 0, 0, 0}, 0));
}

}  // namespace
}  // namespace lockstep
