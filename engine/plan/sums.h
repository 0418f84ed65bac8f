// SPDX-License-Identifier: Apache-2.0
// Sums of what ranks have, in orders that need all terms at once. On the CPU.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep {

// Neighbours in pairs, the last of an odd number as it is, and so on with the sums.
// @pre at least one term; all of one form
at::Tensor tree_sum(std::vector<at::Tensor> terms);

// Of each element the sum itself, rounded once to nearest, ties to even. The first NaN if there is one, the
// processor's NaN of both infinities; a sum of zeros alone is -0.0 where all are, and what else comes to zero
// is 0.0. (Shewchuk 1997, Adaptive Precision Floating-Point Arithmetic, section 2.4; Boldo and Melquiond
// 2008, rounding to odd.)
// @pre at least one term, dense ones of one form, of floating point
at::Tensor exact_sum(const std::vector<at::Tensor>& terms);

}  // namespace lockstep
