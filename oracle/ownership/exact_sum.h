// SPDX-License-Identifier: Apache-2.0
// The correctly rounded sum: what every order of additions comes near to.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::oracle {

// Of each element: the sum of the terms divided by `divisor`, rounded once to `dtype`, to nearest and ties to
// even; whatever the order of the terms, and however large their partial sums. Of terms that are no numbers
// the first NaN, cast; the quiet NaN of both infinities; else the infinity. A sum of zeros alone is -0.0 if
// all are; any other that comes to zero is 0.0, or has the sign of what was rounded away.
// @pre floating dtypes; 1 <= divisor < 2^31.
at::Tensor exact_sum(const std::vector<at::Tensor>& terms, int64_t divisor, c10::ScalarType dtype);

}  // namespace lockstep::oracle
