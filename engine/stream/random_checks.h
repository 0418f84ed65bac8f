// SPDX-License-Identifier: Apache-2.0
// What random operators demand of arguments that are tensors or numbers: conditions, which throw Error. They
// compute nothing that a result is made of.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep {

// bernoulli_(P): within [0, 1], of a floating dtype.
void check_probabilities(const at::Tensor& p);
// normal: not negative.
void check_std(const char* op, double std);
void check_stds(const at::Tensor& std);
// rrelu: lower <= upper.
void check_slopes(double lower, double upper);
void check_multinomial(const at::Tensor& weights, int64_t samples, bool replacement);
void check_permutation(int64_t n);

}  // namespace lockstep
