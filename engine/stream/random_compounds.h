// SPDX-License-Identifier: Apache-2.0
// Random operators made of one draw and stock operators: what each draws, and what it makes of the draw. Used
// for plain tensors and for the locals of distributed ones, whose call describes the global tensors.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

#include "engine/stream/random_call.h"

namespace lockstep {

// A tensor as a random operator sees it.
struct Extents {
  std::vector<int64_t> shape, stride;
};

// bernoulli_(P): the uniform numbers u for `out`, compared with `p`, which broadcasts. Stock orders the
// dimensions by stride only where both agree; the call's strides are those of that order, without gaps.
RandomCall bernoulli_call(const Extents& out, c10::ScalarType dtype, const Extents& p);
// Where there is a one: u <= P.
at::Tensor bernoulli_hits(const at::Tensor& u, const at::Tensor& p);
// Throws Error for a probability outside of [0, 1].
void check_probabilities(const at::Tensor& p);

// normal(mean, std) with tensors: standard normal numbers, times std, plus mean, each operator rounded; a std
// that is a number goes into the draw. Throws Error for a negative one.
void check_std(const char* op, double std);
void check_stds(const at::Tensor& std);

// rrelu in training: the slopes of the contiguous tensor that has the input's shape.
RandomCall rrelu_call(std::vector<int64_t> shape, c10::ScalarType dtype, double lower, double upper);
// What goes into noise: the slope where the input is not positive, else 1. The result is input times noise.
at::Tensor rrelu_noise(const at::Tensor& input, const at::Tensor& slopes);

// multinomial: an exponential number for each weight, whose ratio decides; or, with replacement and several
// samples, a uniform number for each sample, looked up among the cumulative weights. Those are summed by
// stock CPU operators, not in the order of the GPU's scan.
RandomCall multinomial_call(const Extents& weights, c10::ScalarType dtype, int64_t samples, bool replacement);
at::Tensor multinomial_pick(const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                            bool replacement);
// Throws Error where the stock operator would.
void check_multinomial(const at::Tensor& weights, int64_t samples, bool replacement);

// randperm(n)
RandomCall randperm_call(int64_t n, c10::ScalarType dtype);

}  // namespace lockstep
