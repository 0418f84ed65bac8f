// SPDX-License-Identifier: Apache-2.0
// Inputs of ops that move before the ops are decided: a plan's rows of ops, while the module runs that calls
// them.
#pragma once
#include <c10/util/SmallVector.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/tensor/operands.h"
#include "engine/tensor/redistribute.h"

namespace lockstep {

struct OpInput {
  std::string op;       // "aten::mm", of any overload
  int64_t number = -1;  // the so-manieth call of the op, from 0; -1: all
  int64_t index = 0;    // among the op's tensors, in the order of its schema, lists flattened
  Along along;          // mesh dimensions, in this order
  std::string what;     // the row, for errors
};

class OpInputs {
 public:
  explicit OpInputs(std::vector<OpInput> inputs) : inputs_(std::move(inputs)) {}

  // A call begins: its tensors, moved; empty: none of them moves. Throws Error for an input that the op does
  // not have, or writes to.
  PerOperand<at::Tensor> moved(const c10::OperatorHandle& op, const ParsedCall& call);

 private:
  std::vector<OpInput> inputs_;
  std::vector<std::pair<std::string, int64_t>> calls_;  // how many there have been of each op
};

}  // namespace lockstep
