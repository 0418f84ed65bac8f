// SPDX-License-Identifier: Apache-2.0
#include "kernels/add_terms.h"

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

}  // namespace

void add_terms(float* value, const float* term, int64_t n) {
  add(value, term, n);
}

void add_terms(double* value, const double* term, int64_t n) {
  add(value, term, n);
}

}  // namespace lockstep
