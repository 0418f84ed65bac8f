// SPDX-License-Identifier: Apache-2.0
// One node of a sum across ranks, in place.
#pragma once
#include <cstdint>

namespace lockstep {

// value[i] += term[i], one rounding each. A NaN passes with its own bits, and the value's before the term's.
void add_terms(float* value, const float* term, int64_t n);
void add_terms(double* value, const double* term, int64_t n);

}  // namespace lockstep
