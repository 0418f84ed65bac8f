// SPDX-License-Identifier: Apache-2.0
// Random ops on DTensors that make something of what they draw: each rank its own part, but multinomial,
// which every rank computes whole.
#pragma once
#include "engine/tensor/random_ops.h"

namespace lockstep {

using RandomResults = std::vector<PerRank<at::Tensor>>;  // [output][hosted rank]

RandomResults native_dropout_op(const RandomOp& r);
// bernoulli of a tensor of probabilities: the input itself, or the second argument.
RandomResults bernoulli_op(const RandomOp& r, size_t probabilities);
RandomResults normal_of_tensors_op(const RandomOp& r);
RandomResults rrelu_op(const RandomOp& r);
RandomResults multinomial_op(const RandomOp& r);

}  // namespace lockstep
