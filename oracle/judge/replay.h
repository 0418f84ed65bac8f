// SPDX-License-Identifier: Apache-2.0
// Runs one recorded op again, on other tensors: on whole values, in float64, or on one rank's slices with
// arguments made local. Plain kernels only; results are fresh, and what the op writes to is written in the
// tensors given.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "oracle/ownership/slicing.h"
#include "oracle/plain/recording.h"

namespace lockstep::oracle {

// What an op leaves behind: a returned tensor, or an input that it wrote to.
struct Effect {
  Window window;         // afterwards
  int64_t result = -1;   // index of the returned tensor; -1: only written
  int64_t input = -1;    // index of the input whose memory it is
  bool written = false;  // that input is written to; else the result is a view of it
};
std::vector<Effect> effects(const RecordedOp& op);

// By its schema; _unsafe_view returns the memory of its input and says that it is new.
bool returns_view(const RecordedOp& op, const Effect& effect);

// Whether the op is a view that leaves all elements in their order: what is flat is then the same.
bool keeps_order(const RecordedOp& op, const std::vector<Effect>& effects);

using Tensors = std::vector<at::Tensor>;

// In-place ops write to what they are given: copies of it, one for all inputs that are one tensor.
Tensors writable(const RecordedOp& op, Tensors inputs);

// A tensor for each effect. @pre inputs are as many as op.inputs, undefined where those are.
Tensors apply(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs);
// The same of a random op, which draws where the plain run did. native_dropout's apply() draws nothing: the
// mask of the plain run stands behind its inputs.
Tensors draw_again(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs);
// The same in float64: floating inputs must be double already; dtype arguments become double.
Tensors apply_f64(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs);
// The op with every number that stands among its arguments replaced by its magnitude, and subtraction by
// addition.
Tensors apply_magnitudes(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs);

// One rank's run: `inputs` are its slices. Sizes among the arguments become those of its part of output 0; a
// sum over no elements that pends is the identity; rows of a vocabulary shard that others own are -0.0.
struct Locality {
  const std::vector<SpecPtr>& inputs;   // null: undefined, or a plain tensor
  const std::vector<SpecPtr>& outputs;  // of the effects
  int64_t position = 0;
  bool float64 = false;    // as apply_f64
  bool flat_view = false;  // it keeps_order, and output 0 is cut flat
};
Tensors apply_local(const RecordedOp& op, const std::vector<Effect>& effects, Tensors inputs,
                    const Locality& where);

}  // namespace lockstep::oracle
