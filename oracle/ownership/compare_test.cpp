// SPDX-License-Identifier: Apache-2.0
// The comparator: what it rejects, how it classes what it found, and what it reports.
#include "oracle/ownership/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep::oracle {
namespace {

// A tensor of the given words, each as wide as an element of the dtype.
at::Tensor words(c10::ScalarType dtype, const std::vector<uint64_t>& bits) {
  auto t = at::empty({static_cast<int64_t>(bits.size())}, dtype);
  const auto size = c10::elementSize(dtype);
  for (size_t i = 0; i < bits.size(); ++i)
    std::memcpy(static_cast<char*>(t.data_ptr()) + i * size, &bits[i], size);
  return t;
}

struct FloatCase {
  c10::ScalarType dtype;
  uint64_t one, nan, infinity, sign;
};
const FloatCase kFloats[] = {
    {at::kDouble, 0x3ff0000000000000, 0x7ff8000000000000, 0x7ff0000000000000, 0x8000000000000000},
    {at::kFloat, 0x3f800000, 0x7fc00000, 0x7f800000, 0x80000000},
    {at::kBFloat16, 0x3f80, 0x7fc0, 0x7f80, 0x8000},
    {at::kHalf, 0x3c00, 0x7e00, 0x7c00, 0x8000}};

// Would catch: a comparator with a tolerance, or one that compares values (-0.0 == 0.0, NaN != NaN) instead
// of bits.
TEST(Compare, RejectsOneUlpTheSignOfZeroAndANanPayload) {
  for (const auto& f : kFloats) {
    const auto base = words(f.dtype, {f.one, 0, f.nan});
    EXPECT_TRUE(compare(base, base.clone()).equal());
    EXPECT_EQ(compare(base, words(f.dtype, {f.one + 1, 0, f.nan})).bits, BitClass::kUlp);
    EXPECT_EQ(compare(base, words(f.dtype, {f.one, f.sign, f.nan})).bits, BitClass::kZeroSign);
    EXPECT_EQ(compare(base, words(f.dtype, {f.one, 0, f.nan + 1})).bits, BitClass::kNanPayload);
    EXPECT_EQ(compare(base, words(f.dtype, {f.one, 0, f.nan | f.sign})).bits, BitClass::kNanPayload);
  }
}

// Would catch: a class too mild for the pair, above all infinity as a neighbour of the largest number.
TEST(Compare, ClassesAreTheDocumentedOnes) {
  for (const auto& f : kFloats) {
    const auto bits = [&](uint64_t e, uint64_t a, int64_t limit = 4) {
      return compare(words(f.dtype, {e}), words(f.dtype, {a}), limit).bits;
    };
    EXPECT_EQ(bits(f.one, f.one + 4), BitClass::kUlp);
    EXPECT_EQ(bits(f.one, f.one + 5), BitClass::kValue);
    EXPECT_EQ(bits(f.one, f.one + 5, 5), BitClass::kUlp);
    EXPECT_EQ(bits(f.one, f.one | f.sign), BitClass::kValue);
    EXPECT_EQ(bits(1, f.sign | 1), BitClass::kUlp);  // the denormals about zero are two apart
    EXPECT_EQ(bits(f.infinity, f.infinity - 1), BitClass::kValue);
    EXPECT_EQ(bits(f.infinity, f.infinity | f.sign), BitClass::kValue);
    EXPECT_EQ(bits(f.one, f.nan), BitClass::kValue);
    EXPECT_EQ(bits(0, f.nan), BitClass::kValue);
  }
  EXPECT_EQ(compare(words(at::kLong, {7}), words(at::kLong, {8})).bits, BitClass::kValue);
  EXPECT_EQ(compare(words(at::kBool, {0}), words(at::kBool, {1})).bits, BitClass::kValue);
}

// Would catch: the mildest difference reported instead of the worst, counts or the place of the first one
// wrong.
TEST(Compare, TheWorstDifferenceDecides) {
  auto e = at::ones({2, 3}), a = at::ones({2, 3});
  a[0][2] = std::nextafter(1.0F, 2.0F);
  a[1][1] = 1.5;
  const auto d = compare(e, a);
  EXPECT_EQ(d.bits, BitClass::kValue);
  EXPECT_EQ(d.elements, 6);
  EXPECT_EQ(d.different, 2);
  EXPECT_EQ(d.first_index, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(d.expected_bits, 0x3f800000U);
  EXPECT_EQ(d.actual_bits, 0x3f800001U);
  EXPECT_EQ(d.max_ulp, 1 << 22);
  EXPECT_EQ(d.max_abs, 0.5);
  EXPECT_EQ(d.max_rel, 0.5);
  const auto text = describe(d, at::kFloat);
  for (const auto* part :
       {"value", "2 of 6", "[0,2]", "0x3f800000", "0x3f800001", "1.00000012", "4194304 ulp"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

// Would catch: equal bytes of another shape or dtype passing, something where there is to be nothing, or
// strides taken for values.
TEST(Compare, ShapeAndDtypeCountStridesDoNot) {
  const auto x = at::arange(6, at::kFloat).reshape({2, 3});
  EXPECT_TRUE(compare(x, x.t().contiguous().t()).equal());
  EXPECT_TRUE(compare(x.select(1, 1), x.select(1, 1).clone()).equal());
  EXPECT_EQ(compare(x, x.t()).bits, BitClass::kShape);
  EXPECT_EQ(compare(x, x.reshape({3, 2})).bits, BitClass::kShape);
  EXPECT_EQ(compare(at::zeros({2}), at::zeros({2}, at::kInt)).bits, BitClass::kShape);
  EXPECT_EQ(compare(at::zeros({0}), at::zeros({0, 1})).bits, BitClass::kShape);
  EXPECT_EQ(compare(at::zeros({1}), at::Tensor()).bits, BitClass::kShape);
  EXPECT_EQ(compare(at::Tensor(), at::zeros({1})).bits, BitClass::kShape);
  EXPECT_TRUE(compare(at::Tensor(), at::Tensor()).equal());
  EXPECT_TRUE(compare(at::zeros({0, 3}), at::zeros({0, 3})).equal());
  const auto transposed =
      compare(x, x.clone().index_put_({at::tensor({1}), at::tensor({2})}, at::tensor(9.0F)).t().clone().t());
  EXPECT_EQ(transposed.first_index, (std::vector<int64_t>{1, 2}));
}

// Would catch: a distance that jumps at zero or at a power of two, or overflows between extremes.
TEST(Compare, UlpDistanceCountsRepresentableNumbers) {
  const double smallest = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulp_distance(0.0, -0.0, at::kFloat), 0);
  EXPECT_EQ(ulp_distance(smallest, -smallest, at::kFloat), 2);
  EXPECT_EQ(ulp_distance(2.0, std::nextafter(2.0F, 0.0F), at::kFloat), 1);
  EXPECT_EQ(ulp_distance(1, 2, at::kFloat), 1 << 23);
  EXPECT_EQ(ulp_distance(1, 2, at::kBFloat16), 1 << 7);
  EXPECT_EQ(ulp_distance(1, 2, at::kHalf), 1 << 10);
  const auto huge = std::numeric_limits<double>::max(), inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(ulp_distance(huge, inf, at::kDouble), 1);
  EXPECT_EQ(ulp_distance(-huge, huge, at::kDouble), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ulp_distance(1, std::nan(""), at::kDouble), std::numeric_limits<int64_t>::max());
}

// Would catch, exhaustively over all pairs of 16-bit patterns near each other: equal() that is not bit
// equality.
TEST(Compare, SixteenBitPatternsAreEqualOnlyToThemselves) {
  std::vector<uint64_t> all(1 << 16);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (const auto dtype : {at::kHalf, at::kBFloat16}) {
    const auto e = words(dtype, all);
    for (const int shift : {1, 0x8000}) {
      auto moved = all;
      for (auto& bits : moved) bits = (bits + static_cast<uint64_t>(shift)) & 0xffff;
      EXPECT_EQ(compare(e, words(dtype, moved)).different, 1 << 16);
    }
  }
}

}  // namespace
}  // namespace lockstep::oracle
