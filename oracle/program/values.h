// SPDX-License-Identifier: Apache-2.0
// The input tensors of a Case: deterministic functions of (kind, seed, element), the same on every machine.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/values/spec.h"
#include "oracle/program/program.h"

namespace lockstep::oracle {

// Strides of the input's global tensor: dense, in its memory order.
std::vector<int64_t> stride_of(const Input& input);
// How the Case places its input; a plain one is what every rank holds alike. Throws Error if the placements
// do not fit.
Spec spec_of(const Case& c, int64_t input);

struct InputTensors {
  at::Tensor global;               // without history; requires_grad is the caller's to set
  std::vector<at::Tensor> locals;  // one for each mesh position
};

// Sharded and replicated dimensions: locals are slices of the global. Partial: terms come first, locals are
// slices of terms, and the global is the terms' fold in the default order, so that assemble(locals, spec) ==
// global in every bit.
InputTensors make_input(const Case& c, int64_t input);
std::vector<InputTensors> make_inputs(const Case& c);  // all of them
at::Tensor make_global(const Case& c, int64_t input);
std::vector<at::Tensor> make_locals(const Case& c, int64_t input);

}  // namespace lockstep::oracle
