// SPDX-License-Identifier: Apache-2.0
// Gradients on their way back: where they have to be, and those that autograd makes itself.
#pragma once
#include <torch/custom_class.h>

#include "engine/tensor/dtensor_impl.h"

namespace lockstep {

bool in_backward_pass();
// Whether what runs is a formula that libtorch's tools generated, which writes to nothing but what it has
// just made: no node of the user's, and none that adds to a leaf's gradient.
bool in_backward_formula();

// Whether a plain tensor is one of those that autograd's formulas make from a gradient's options, which say
// nothing of a mesh, or from such: the same on every rank, so that it stands for a replicated one. Known by
// where it was made, whatever its values; one that was written since is so no more.
bool made_by_autograd(const at::Tensor& tensor);
// Of an operator on plain tensors that has run: marks its results if they are autograd's own.
void mark_if_autograds(const c10::OperatorHandle& op, c10::ArrayRef<at::Tensor> given,
                       torch::jit::Stack& stack);

// Throws Refused, in the name of what is differentiated, for a gradient that is sparse.
void require_dense(const at::Tensor& grad, const Spec& of, const char* who);
// A gradient in the placements that the gradient of the tensor has; the gradient itself if it is there.
// Throws Error if it is a plain tensor that autograd did not make.
at::Tensor settled(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm);
// The same in placements of its own.
at::Tensor settled(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm,
                   const Placements& placements);
// A gradient as a DTensor, and its Spec where settled() would move it; null: nowhere. Throws as settled()
// does.
std::pair<at::Tensor, SpecPtr> to_settle(const at::Tensor& grad, const SpecPtr& of, const CommPtr& comm,
                                         const Placements& placements);

// The gradient, or a copy where another tensor has the memory of its locals, so that a leaf may keep it.
at::Tensor for_leaf(const at::Tensor& grad);

// The gradients of these tensors that are leaves will be DTensors, also where autograd's own tensors arrive.
void keep_leaf_gradients(at::ArrayRef<at::Tensor> tensors);

// Where a tensor is, kept in an autograd context.
struct Held : torch::CustomClassHolder {
  Held(SpecPtr s, CommPtr c) : spec(std::move(s)), comm(std::move(c)) {}
  SpecPtr spec;
  CommPtr comm;
};
c10::IValue hold(SpecPtr spec, CommPtr comm);
c10::intrusive_ptr<Held> held_in(const c10::IValue& capsule);

}  // namespace lockstep
