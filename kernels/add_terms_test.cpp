// SPDX-License-Identifier: Apache-2.0
// Sums in place, as bits.
#include "kernels/add_terms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

template <class T, class Bits>
void check(Bits quiet, Bits signalling, Bits negative) {
  const auto inf = std::numeric_limits<T>::infinity();
  const std::vector<Bits> kinds{quiet,
                                signalling,
                                negative,
                                std::bit_cast<Bits>(inf),
                                std::bit_cast<Bits>(-inf),
                                std::bit_cast<Bits>(T(0)),
                                std::bit_cast<Bits>(T(-0.0)),
                                std::bit_cast<Bits>(std::numeric_limits<T>::denorm_min()),
                                std::bit_cast<Bits>(std::numeric_limits<T>::max()),
                                std::bit_cast<Bits>(T(1.1))};
  std::vector<T> value, term;
  for (const auto a : kinds)
    for (const auto b : kinds) value.push_back(std::bit_cast<T>(a)), term.push_back(std::bit_cast<T>(b));
  for (size_t n = 0; n < value.size(); ++n) {  // every remainder of a vector's width
    auto got = value;
    add_terms(got.data(), term.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < value.size(); ++i) {
      volatile T a = value[i], b = term[i];
      const bool keeps_value = i >= n || a != a;
      const auto sum = keeps_value ? value[i] : b != b ? term[i] : a + b;
      ASSERT_EQ(std::bit_cast<Bits>(got[i]), std::bit_cast<Bits>(T(sum))) << n << " " << i;
    }
  }
}

// Catches: a NaN with the processor's payload, made quiet, or the term's before the value's; a denormal
// flushed; an element past the end.
TEST(AddTerms, KeepsEveryBitOfANaN) {
  check<float, uint32_t>(0x7fc00123, 0x7f800001, 0xffc00456);
  check<double, uint64_t>(0x7ff8000000000123, 0x7ff0000000000001, 0xfff8000000000456);
}

// What 16 bits say, by the definition, and which of them is nearest to a number.
struct Format {
  int fraction, least, most;  // bits of it; the exponents of the least normal number and of the largest
  double value(uint16_t bits) const {
    const int exponent = (bits & 0x7fff) >> fraction, part = bits & ((1 << fraction) - 1);
    const double magnitude = exponent == 0
                                 ? std::ldexp(part, least - fraction)
                                 : std::ldexp(part + (1 << fraction), exponent - 1 + least - fraction);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
  uint16_t infinity() const { return static_cast<uint16_t>((most - least + 2) << fraction); }
  bool is_nan(uint16_t bits) const { return (bits & 0x7fff) > infinity(); }
  bool is_infinite(uint16_t bits) const { return (bits & 0x7fff) == infinity(); }
  uint16_t nearest(float value) const {
    const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const double a = std::fabs(value);
    if (std::isinf(a)) return sign | infinity();
    const int exponent = a == 0 ? least : std::max(std::ilogb(a), least);
    const double ulps = std::nearbyint(std::ldexp(a, fraction - exponent));  // of that exponent
    const auto bits = static_cast<int64_t>(ulps) + (static_cast<int64_t>(exponent - least) << fraction);
    return sign | static_cast<uint16_t>(std::min<int64_t>(bits, infinity()));
  }
};

template <class T>
void check_short(const Format& format, uint16_t made_nan) {
  const uint16_t inf = format.infinity();
  const auto negative = [](int bits) { return static_cast<uint16_t>(bits | 0x8000); };
  std::vector<uint16_t> terms{0,
                              0x8000,
                              1,
                              negative(1),
                              2,
                              3,
                              inf,
                              negative(inf),
                              static_cast<uint16_t>(inf - 1),
                              static_cast<uint16_t>(inf + 1),
                              negative(inf + 7),
                              0x7fff};
  for (uint32_t bits = 0; bits < 0x10000; bits += 1709) terms.push_back(static_cast<uint16_t>(bits));
  std::vector<T> value(0x10000), term(0x10000);
  for (const uint16_t b : terms) {
    for (uint32_t a = 0; a < 0x10000; ++a) value[a] = {static_cast<uint16_t>(a)}, term[a] = {b};
    add_terms(value.data(), term.data(), 0x10000 - 1);
    ASSERT_EQ(value.back().bits, 0xffff) << "past the end";
    for (uint32_t all = 0; all < 0xffff; ++all) {
      const auto a = static_cast<uint16_t>(all);
      uint16_t expected = a;
      if (!format.is_nan(a)) {
        if (format.is_nan(b))
          expected = b;
        else if (format.is_infinite(a) || format.is_infinite(b))
          expected = format.is_infinite(a) && format.is_infinite(b) && a != b ? made_nan
                     : format.is_infinite(a)                                  ? a
                                                                              : b;
        else
          expected =
              format.nearest(static_cast<float>(format.value(a)) + static_cast<float>(format.value(b)));
      }
      ASSERT_EQ(value[a].bits, expected) << a << " + " << b;
    }
  }
}

// Each number of 16 bits and fifty others. Catches: ties that go up, a sum that is rounded once, a subnormal
// that is flushed, a largest number that overflows too early, a NaN of the processor's.
TEST(AddTerms, ShortSumsAreRoundedTwice) {
  check_short<BFloat16Bits>({7, -126, 127}, 0x7fc0);
  const volatile float infinity = std::numeric_limits<float>::infinity();
  const float none = infinity - infinity;
  check_short<HalfBits>({10, -14, 15}, std::signbit(none) ? 0xfe00 : 0x7e00);
}

}  // namespace
}  // namespace lockstep
