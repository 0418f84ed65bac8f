// SPDX-License-Identifier: Apache-2.0
// Sums in place, as bits.
#include "kernels/add_terms.h"

#include <gtest/gtest.h>

#include <bit>
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

}  // namespace
}  // namespace lockstep
