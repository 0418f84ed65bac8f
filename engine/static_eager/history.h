// SPDX-License-Identifier: Apache-2.0
// The history that autograd has of a tensor, as one number.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace lockstep {

// From the first number of a node to before the last.
using Nodes = std::pair<uint64_t, uint64_t>;

// The number of the next node of this thread.
uint64_t next_node();

// Of the kinds of the nodes of these numbers through which the tensor's gradient goes back, in their order;
// but for those that are left out. Law: the same for the same ops, whatever the values and the numbers.
uint64_t history_of(const at::Tensor& tensor, Nodes nodes, const std::vector<Nodes>& left_out);

}  // namespace lockstep
