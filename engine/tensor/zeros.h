// SPDX-License-Identifier: Apache-2.0
// Gradients that libtorch knows to be zero: that of sgn is a ZeroTensor, which no DTensor can stand beside,
// for libtorch's own kernels come before the engine. The engine's is a DTensor of zeros that does as a
// ZeroTensor does: what it times is zero, whatever the other's elements and sign, and so is what is divided
// into it; what it is added to is a copy. In-place ops, which a ZeroTensor refuses, make it an
// ordinary one; views are such again; kernels see it as it lies, as copies do, or one zero everywhere.
#pragma once
#include "engine/tensor/operands.h"

namespace lockstep {

bool is_zeros(const at::Tensor& tensor);
// @pre a DTensor of zeros
void mark_zeros(const at::Tensor& tensor);

// What the op gives for zeros among its operands, where it is not what its rule gives.
std::optional<at::Tensor> of_zeros(const Resolved& resolved, const ParsedCall& call,
                                   at::ArrayRef<c10::IValue> args);

// Whether the op reads zeros otherwise than as they lie.
bool reads_zeros(const Resolved& resolved, const ParsedCall& call);
// The arguments with zeros as kernels see a ZeroTensor: strides of 0 say nothing of the order in which
// results lie.
torch::jit::Stack with_zeros_spread(const Resolved& resolved, at::ArrayRef<c10::IValue> args,
                                    const ParsedCall& call);

}  // namespace lockstep
