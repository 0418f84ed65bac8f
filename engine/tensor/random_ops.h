// SPDX-License-Identifier: Apache-2.0
// Random ATen ops on DTensors: what each draws, and what it makes of the draw.
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
  c10::ArrayRef<SpecPtr> given;      // the inputs' Specs as the op was called
  c10::ArrayRef<at::Tensor> placed;  // the inputs where the op needs them
  const std::vector<SpecPtr>& outputs;
  const Comm& comm;
};

// results[output][hosted rank].
std::vector<PerRank<at::Tensor>> random_op(const OpEntry& entry, const RandomOp& r);

}  // namespace lockstep
