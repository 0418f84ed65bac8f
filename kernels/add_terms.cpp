// SPDX-License-Identifier: Apache-2.0
#include "kernels/add_terms.h"

#include <bit>

namespace lockstep {
namespace {

// The compiler makes no assumption about NaNs, so that the comparisons stay.
template <class T>
void add(T* __restrict value, const T* __restrict term, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const T a = value[i], b = term[i], sum = a + b;
    const T of_term = b != b ? b : sum;
    value[i] = a != a ? a : of_term;
  }
}

// Of each kind: the float that it is, the number nearest to a float (ties to even), and what is a NaN.
struct BFloat16 {
  using Bits = BFloat16Bits;
  static float wide(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint16_t nearest(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  static bool is_nan(uint16_t bits) { return (bits & 0x7fff) > 0x7f80; }
  static uint16_t made_nan(float) { return 0x7fc0; }
};

struct Half {
  using Bits = HalfBits;
  // Its exponents are 112 less than a float's; the largest is that of infinities.
  static float wide(uint16_t bits) {
    const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(bits & 0x7fff) << 13) * 0x1p112F;
    const uint32_t infinity = (bits & 0x7c00) == 0x7c00 ? 0x7f800000 : 0, sign = bits & 0x8000;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | infinity | sign << 16);
  }
  static uint16_t nearest(float value) {
    const auto all = std::bit_cast<uint32_t>(value), bits = all & 0x7fffffff;
    const uint32_t normal = (bits + 0xfff + (bits >> 13 & 1) - (uint32_t{112} << 23)) >> 13;
    // Below 2^-14 they are multiples of 2^-24, as floats from a half to one are.
    const uint32_t small =
        std::bit_cast<uint32_t>(std::bit_cast<float>(bits) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    const uint32_t finite = bits < std::bit_cast<uint32_t>(0x1p-14F) ? small : normal;
    const uint32_t magnitude = bits >= std::bit_cast<uint32_t>(65520.0F) ? 0x7c00 : finite;
    return static_cast<uint16_t>(magnitude | (all >> 16 & 0x8000));
  }
  static bool is_nan(uint16_t bits) { return (bits & 0x7fff) > 0x7c00; }
  static uint16_t made_nan(float sum) {
    return static_cast<uint16_t>(0x7e00 | (std::bit_cast<uint32_t>(sum) >> 16 & 0x8000));
  }
};

template <class Kind>
void add_short(typename Kind::Bits* __restrict value, const typename Kind::Bits* __restrict term, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t a = value[i].bits, b = term[i].bits;
    const float sum = Kind::wide(a) + Kind::wide(b);
    const uint16_t number = Kind::nearest(sum), nan = Kind::made_nan(sum);
    const uint16_t made = sum != sum ? nan : number;
    const uint16_t of_term = Kind::is_nan(b) ? b : made;
    value[i].bits = Kind::is_nan(a) ? a : of_term;
  }
}

}  // namespace

void add_terms(float* value, const float* term, int64_t n) {
  add(value, term, n);
}

void add_terms(double* value, const double* term, int64_t n) {
  add(value, term, n);
}

void add_terms(BFloat16Bits* value, const BFloat16Bits* term, int64_t n) {
  add_short<BFloat16>(value, term, n);
}

void add_terms(HalfBits* value, const HalfBits* term, int64_t n) {
  add_short<Half>(value, term, n);
}

}  // namespace lockstep
