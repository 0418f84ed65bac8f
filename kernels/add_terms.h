// SPDX-License-Identifier: Apache-2.0
// One node of a sum across ranks, in place.
#pragma once
#include <cstdint>

namespace lockstep {

// value[i] += term[i], one rounding each. A NaN passes with its own bits, and the value's before the term's.
void add_terms(float* value, const float* term, int64_t n);
void add_terms(double* value, const double* term, int64_t n);

// The same of numbers of 16 bits: added in float, which is one rounding, and brought back to 16 bits, which
// is another. The NaN that is made of infinities is 0x7fc0 in bfloat16, and in half has the float sum's sign.
struct BFloat16Bits {
  uint16_t bits;
};
struct HalfBits {
  uint16_t bits;
};
void add_terms(BFloat16Bits* value, const BFloat16Bits* term, int64_t n);
void add_terms(HalfBits* value, const HalfBits* term, int64_t n);

}  // namespace lockstep
