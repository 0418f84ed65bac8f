// SPDX-License-Identifier: Apache-2.0
// Random operators made of one draw and stock operators: what each draws, and what it makes of the draw. Used
// for the locals of distributed tensors, whose call describes the global tensors, and for plain ones. The
// oracle has its own (oracle/random/).
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

// rrelu in training: the slopes of the contiguous tensor that has the input's shape.
RandomCall rrelu_call(const std::vector<int64_t>& shape, c10::ScalarType dtype, double lower, double upper);
// What goes into noise: the slope where the input is not positive, else 1. The result is input times noise.
at::Tensor rrelu_noise(const at::Tensor& input, const at::Tensor& slopes);

// multinomial: an exponential number for each weight, or a uniform one for each sample.
RandomCall multinomial_call(const Extents& weights, c10::ScalarType dtype, int64_t samples, bool replacement);
at::Tensor multinomial_pick(const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                            bool replacement);

// The stock kernel: y = (x * m) * (1 / P) in the accumulation type, P = 1 - p rounded to it.
at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep, double p);

}  // namespace lockstep
