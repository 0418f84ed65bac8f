// SPDX-License-Identifier: Apache-2.0
// Where gradients pass on their way back: what torch's full backward hooks and FSDP's stand on.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace lockstep::nn {

// Sees the gradients of the tensors of a boundary, one for each, undefined where none came or is required,
// and may replace those that came.
using OnGradients = std::function<void(std::vector<at::Tensor>& gradients)>;

// The same values under a history that ends at the boundary: on the way back `arrived` is called once, when
// the gradients of all have come, and before any goes further. No operator runs, so that nothing is logged;
// those that require no gradient, and all where none is recorded, are the tensors themselves. What comes back
// shares memory with what was given. Throws Error for tensors with a gradient of forward mode.
// @param held whether others read what was given later on: then a write in place to what comes back, of which
// their history would not know, is refused, as libtorch refuses it for what a custom Function returns
std::vector<at::Tensor> at_boundary(std::vector<at::Tensor> tensors, OnGradients arrived, bool held = true);

}  // namespace lockstep::nn
