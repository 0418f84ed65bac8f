// SPDX-License-Identifier: Apache-2.0
// The exact sum against arithmetic that is known to round rightly, and against its own laws.
#include "oracle/ownership/exact_sum.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "oracle/ownership/compare.h"

namespace lockstep::oracle {
namespace {

constexpr auto kDtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kCount = 4000;
__extension__ using Wide = __int128;

// Numbers of every exponent, both zeros, subnormal ones, infinities and NaNs.
at::Tensor any_bits(std::mt19937_64& random, c10::ScalarType dtype) {
  auto bits = at::empty({kCount}, at::kLong);
  for (int64_t i = 0; i < kCount; ++i) bits.mutable_data_ptr<int64_t>()[i] = static_cast<int64_t>(random());
  if (dtype == at::kDouble) return bits.view(at::kDouble);
  return bits.view(dtype).slice(0, 0, kCount).clone();
}

// Twice the same bits, NaNs aside: exact_sum passes on the first with its payload.
void expect_numbers(const at::Tensor& wanted, const at::Tensor& actual) {
  const auto number = at::eq(wanted, wanted);
  EXPECT_TRUE(at::isnan(actual).equal(at::logical_not(number)));
  const auto d = compare(wanted.masked_select(number), actual.masked_select(number));
  EXPECT_TRUE(d.equal()) << describe(d, wanted.scalar_type());
}

double exact(const std::vector<double>& terms, c10::ScalarType dtype = at::kDouble, int64_t divisor = 1) {
  std::vector<at::Tensor> tensors;
  for (const double t : terms) tensors.push_back(at::scalar_tensor(t, at::kDouble));
  return exact_sum(tensors, divisor, dtype).item<double>();
}

// One addition and one division round rightly by IEEE 754, in every dtype. Would catch: a limb misplaced,
// ties not to even, a wrong bound of precision, of the smallest numbers or of the largest.
TEST(ExactSum, OfTwoIsTheProcessorsSum) {
  std::mt19937_64 random(1);
  for (const auto dtype : kDtypes) {
    const auto a = any_bits(random, dtype), b = any_bits(random, dtype);
    // Close to -a, so that most bits cancel.
    const auto near = at::mul(a, -1 + 0x1p-6);
    for (const auto& other : {b, near, at::neg(a)})
      expect_numbers(at::add(a, other), exact_sum({a, other}, 1, dtype));
    for (const int64_t divisor : {2, 3, 7, 10, 255})
      expect_numbers(at::div(a, static_cast<double>(divisor)), exact_sum({a}, divisor, dtype));
    expect_numbers(a, exact_sum({a}, 1, dtype));
  }
}

// A cast rounds rightly too. Would catch: a sum that is rounded to the dtype of its terms first.
TEST(ExactSum, OfOneIsTheCast) {
  std::mt19937_64 random(2);
  const auto x = any_bits(random, at::kFloat);
  for (const auto dtype : kDtypes) expect_numbers(x.to(dtype), exact_sum({x}, 1, dtype));
}

// Against 128-bit integers, whose conversions round rightly: many terms, quotients between two numbers. Would
// catch: carries that are lost between limbs, a remainder that does not count, a sign taken twice.
TEST(ExactSum, OfManyIsThatOfBigIntegers) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::vector<double> terms(1 + random() % 12);
    Wide sum = 0;  // in units of 2^-40
    for (double& t : terms) {
      const auto mantissa = static_cast<int64_t>(random()) >> (11 + random() % 50);
      const int shift = static_cast<int>(random() % 60);
      t = std::ldexp(static_cast<double>(mantissa), shift - 40);
      sum += static_cast<Wide>(mantissa) << shift;
    }
    EXPECT_EQ(exact(terms), std::ldexp(static_cast<double>(sum), -40));
    EXPECT_EQ(exact(terms, at::kFloat), std::ldexp(static_cast<float>(sum), -40));
    // A quotient with a remainder is between two integers: with one more bit that is set it rounds alike.
    const Wide divisor = 3 + static_cast<int64_t>(random() % 1000), fine = sum * 64 / divisor;
    const bool rest = sum * 64 % divisor != 0;
    if (fine < (Wide{1} << 60)) continue;
    const double quotient = std::ldexp(static_cast<double>(fine | (rest ? 1 : 0)), -46);
    EXPECT_EQ(exact(terms, at::kDouble, static_cast<int64_t>(divisor)), quotient);
  }
}

// Would catch: a sum that depends on the order of its terms or leaves the range on the way; cancellation that
// is not complete.
TEST(ExactSum, DependsOnNoOrder) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 500; ++round) {
    std::vector<double> terms;
    for (int i = 0; i < 9; ++i) {
      const auto bits = random() & ~(uint64_t{1} << 62);  // below 2
      terms.push_back(std::bit_cast<double>(bits));
    }
    const double once = exact(terms);
    auto shuffled = terms;
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    EXPECT_EQ(exact(shuffled), once);
    for (const double t : terms) shuffled.push_back(-t);
    shuffled.push_back(0x1p-1074);
    EXPECT_EQ(exact(shuffled), 0x1p-1074);
  }
  const double most = std::numeric_limits<double>::max();
  EXPECT_EQ(exact({most, most, -most}), most);
  EXPECT_EQ(exact({most, most, most}, at::kDouble, 3), most);
  EXPECT_EQ(exact({most, most}), kInf);
  EXPECT_EQ(exact({65504, 15.9}, at::kHalf), 65504);
  EXPECT_EQ(exact({65504, 16}, at::kHalf), kInf);
}

// Would catch: the sign of a zero by the order of the terms, an infinity that is forgotten or that beats its
// opposite, a NaN that is another than the first.
TEST(ExactSum, OfSpecialValuesIsAsDeclared) {
  const auto same = [](double wanted, double actual) {
    return std::bit_cast<uint64_t>(wanted) == std::bit_cast<uint64_t>(actual);
  };
  EXPECT_TRUE(same(exact({-0.0, -0.0}), -0.0));
  EXPECT_TRUE(same(exact({-0.0, 0.0}), 0.0));
  EXPECT_TRUE(same(exact({3.0, -3.0}), 0.0));
  EXPECT_TRUE(same(exact({-0x1p-1074}, at::kFloat), -0.0));
  EXPECT_TRUE(same(exact({-0x1p-1074}, at::kDouble, 3), -0.0));
  EXPECT_EQ(exact({1, kInf, 1e308, 1e308}), kInf);
  EXPECT_EQ(exact({-kInf, 1e308, 1e308}, at::kHalf, 3), -kInf);
  EXPECT_TRUE(same(exact({kInf, 1, -kInf}), std::numeric_limits<double>::quiet_NaN()));
  const double first = std::bit_cast<double>(0xfff8000000000123), second = std::nan("0x7");
  EXPECT_TRUE(same(exact({kInf, first, -kInf, second}), first));
}

}  // namespace
}  // namespace lockstep::oracle
