// SPDX-License-Identifier: Apache-2.0
// Random ATen ops: what each rank draws, and what it makes of the draw.
#pragma once
#include "engine/ops/rules/row.h"
#include "engine/values/per_rank.h"
#include "engine/world/comm.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace lockstep {

struct OpEntry;

struct RandomOp {
  const c10::OperatorHandle& op;
  const OpCall& call;
  at::ArrayRef<c10::IValue> args;
  c10::ArrayRef<SpecPtr> given;               // the inputs' Specs as the op was called
  c10::ArrayRef<PerRank<at::Tensor>> placed;  // the inputs where the op needs them; a plain one on each rank
  const std::vector<SpecPtr>& outputs;
  const Comm& comm;
};

using RandomResults = std::vector<PerRank<at::Tensor>>;  // [output][hosted rank]

RandomResults random_op(const OpEntry& entry, const RandomOp& r);

// random_compound_ops.cpp: ops that make something of what they draw, each rank of its own part, but
// multinomial, which every rank computes whole.
RandomResults native_dropout_op(const RandomOp& r);
// bernoulli of a tensor of probabilities: the input itself, or the second argument.
RandomResults bernoulli_op(const RandomOp& r, size_t probabilities);
RandomResults normal_of_tensors_op(const RandomOp& r);
RandomResults rrelu_op(const RandomOp& r);
RandomResults multinomial_op(const RandomOp& r);

}  // namespace lockstep
