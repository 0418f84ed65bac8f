// SPDX-License-Identifier: Apache-2.0
// Where a part of a program that runs on plain tensors begins and ends: DTensors become what each hosted rank
// has of them, and its result a DTensor again, of Specs that have been seen before.
#pragma once
#include "engine/nn/module.h"
#include "engine/tensor/dtensor_impl.h"

namespace lockstep {

// A tensor that passes, and its gradient, as they were when the step was recorded.
struct End {
  SpecPtr spec;      // null: undefined
  SpecPtr gradient;  // null: none came back
  CommPtr comm;
  bool requires_grad = false;
};
// Of an undefined tensor, or a DTensor.
End end_of(const at::Tensor& tensor);
// What is unlike the tensor that was seen; empty: nothing.
std::string unlike(const End& end, const at::Tensor& tensor);

// Differentiable, once. [tensor][rank]; undefined ones stay so. They share memory with the DTensors. On the
// way back the gradients of all arrive together, and are DTensors of the Specs that were seen. Throws Error
// for a gradient where there was none, or of another shape.
// @pre the tensors are like the ends
std::vector<PerRank<at::Tensor>> enter(const nn::Tensors& tensors, std::vector<End> ends);

// Differentiable, once. @param locals one for each hosted rank. Throws Error where they, or the gradient, are
// not as they were seen.
at::Tensor leave(const PerRank<at::Tensor>& locals, const End& end);

}  // namespace lockstep
