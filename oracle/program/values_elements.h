// SPDX-License-Identifier: Apache-2.0
// Single elements of input tensors, from an integer hash of their own and IEEE operations that round alike
// everywhere: no libm, no generator of libtorch, no Philox.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>

#include "engine/values/placement.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {

// 64 bits for an element; `purpose` separates independent uses of one seed.
uint64_t hash_bits(uint64_t seed, uint64_t purpose, int64_t element);
// In [0, bound). @pre bound > 0
int64_t hash_below(uint64_t seed, uint64_t purpose, int64_t element, int64_t bound);
// Multiples of 2^-53 in [0, 1).
double hash_unit(uint64_t seed, uint64_t purpose, int64_t element);

// The element of a floating tensor before rounding to its dtype. @pre kind is not kSpecial or kBits
double real_element(const Values& values, c10::ScalarType dtype, int64_t element);
// The element of an integer or bool tensor; kSpecial: extremes and small numbers. @pre kind is not kBits
int64_t integer_element(const Values& values, c10::ScalarType dtype, int64_t element);
// Bits of kSpecial for a floating dtype. NaNs are quiet, with payloads.
uint64_t special_bits(const Values& values, c10::ScalarType dtype, uint64_t purpose, int64_t element);

// The bits of a reduction's neutral element: -0.0 for a sum. Average has none.
uint64_t identity_bits(ReduceOp op, c10::ScalarType dtype);

// Extremes of an integer dtype; bool is 0 to 1.
int64_t lowest_integer(c10::ScalarType dtype);
int64_t highest_integer(c10::ScalarType dtype);

}  // namespace lockstep::oracle
