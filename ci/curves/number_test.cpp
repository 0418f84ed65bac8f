// SPDX-License-Identifier: Apache-2.0
// How exactly a number was written, and what it is.
#include "ci/curves/number.h"

#include <cmath>

#include "ci/curves/testing.h"

namespace lockstep::curves {
namespace {

using testing::f64;

// Catches: digits that are counted with leading zeros, without trailing ones, or from the exponent.
TEST(Number, DigitsAsWritten) {
  const struct {
    const char* text;
    int digits, decimals;
  } table[] = {{"7.1234", 5, 4},  {"0.0012", 2, 4},  {"7.100", 4, 3}, {"12", 2, 0},    {"0.0", 1, 1},
               {"-3.5e-2", 2, 3}, {"1.25E+2", 3, 0}, {"007.5", 2, 1}, {"+2.50", 3, 2}, {".5", 1, 1},
               {"5.", 1, 0},      {"10000", 5, 0},   {"1e3", 1, 0}};
  for (const auto& row : table) {
    const auto n = parse_decimal(row.text);
    ASSERT_TRUE(n) << row.text;
    EXPECT_EQ(n->digits, row.digits) << row.text;
    EXPECT_EQ(n->decimals, row.decimals) << row.text;
    EXPECT_EQ(n->value(), std::stod(row.text)) << row.text;
  }
}

// Catches: a text with 17 digits taken for a rounded one, or one with 16 for bits.
TEST(Number, SeventeenDigitsAreBits) {
  EXPECT_TRUE(parse_decimal("0.10000000000000001")->exact());
  EXPECT_FALSE(parse_decimal("0.1000000000000000")->exact());
  EXPECT_TRUE(parse_decimal("0.1", "f64")->exact());
  EXPECT_EQ(parse_decimal("0.1", "f32")->bits, std::bit_cast<uint32_t>(0.1f));
  EXPECT_EQ(parse_decimal("0.1", "f32")->dtype, "f32");
}

// Catches: a sign of zero that is lost, a NaN that is refused, a number beyond the range that becomes
// infinity.
TEST(Number, ZeroNanAndRange) {
  EXPECT_EQ(parse_decimal("-0.0")->bits, uint64_t{1} << 63);
  EXPECT_EQ(parse_decimal("-0")->bits, uint64_t{1} << 63);
  for (const char* text : {"nan", "NaN", "-nan", "inf", "-Infinity"}) {
    ASSERT_TRUE(parse_decimal(text)) << text;
    EXPECT_FALSE(std::isfinite(parse_decimal(text)->value())) << text;
    EXPECT_EQ(parse_decimal(text)->digits, kNoDigits) << text;
  }
  EXPECT_EQ(parse_decimal("-inf", "f32")->bits, 0xff800000u);
  for (const char* text : {"", "-", "1,5", "7.1x", "1e999", "--1", "0x10", "1 2", "e5", ".", "1e", "nanx"})
    EXPECT_FALSE(parse_decimal(text)) << text;
  EXPECT_FALSE(parse_decimal("1e39", "f32"));
}

// Catches: bits of a wrong width read as another dtype.
TEST(Number, Bits) {
  EXPECT_EQ(parse_bits("0x3f800000")->value(), 1.0);
  EXPECT_EQ(parse_bits("3ff0000000000000")->dtype, "f64");
  EXPECT_EQ(parse_bits("3f80", "bf16")->value(), 1.0);
  EXPECT_EQ(parse_bits("3c00", "f16")->value(), 1.0);
  for (const char* text : {"3f80", "3f8000000", "", "0x", "3f80000g", "-f800000"})
    EXPECT_FALSE(parse_bits(text)) << text;
  EXPECT_FALSE(parse_bits("3f800000", "f64"));
  EXPECT_FALSE(parse_bits("3f800000", "int8"));
}

// Catches: rounding that leaves the old digits, or moves infinities.
TEST(Number, Rounded) {
  EXPECT_EQ(rounded(f64(7.62586), 4).value(), 7.6259);
  EXPECT_EQ(rounded(f64(7.62586), 4).digits, 5);
  EXPECT_EQ(rounded(f64(12.0), 2).digits, 4);
  EXPECT_EQ(rounded(f64(-0.00001), 2).bits, uint64_t{1} << 63);
  EXPECT_EQ(rounded(f64(-INFINITY), 2).value(), -INFINITY);
  EXPECT_EQ(rounded(from_f32(0x3f800001), 3), *parse_decimal("1.000"));
}

// Catches: a fraction that is cut off, a step that wraps around.
TEST(Number, Steps) {
  EXPECT_EQ(parse_step("12"), 12);
  EXPECT_EQ(parse_step("-3"), -3);
  EXPECT_EQ(parse_step("12.000"), 12);
  for (const char* text : {"", "1.5", "1e3", "99999999999999999999", "x", "1 "})
    EXPECT_FALSE(parse_step(text)) << text;
}

}  // namespace
}  // namespace lockstep::curves
