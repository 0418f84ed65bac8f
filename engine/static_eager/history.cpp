// SPDX-License-Identifier: Apache-2.0
#include "engine/static_eager/history.h"

#include <ATen/SequenceNumber.h>
#include <c10/util/hash.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <typeinfo>

namespace lockstep {

uint64_t next_node() {
  return at::sequence_number::peek();
}

uint64_t history_of(const at::Tensor& tensor, Nodes nodes, const std::vector<Nodes>& left_out) {
  const auto [first, last] = nodes;
  if (last <= first || tensor.grad_fn() == nullptr) return 0;
  std::vector<const torch::autograd::Node*> seen(last - first, nullptr), open;
  const auto meet = [&](const torch::autograd::Node* node) {
    if (node == nullptr || node->sequence_nr() < first || node->sequence_nr() >= last) return;
    auto& place = seen[node->sequence_nr() - first];
    if (place != nullptr) return;
    place = node;
    open.push_back(node);
  };
  meet(tensor.grad_fn().get());
  while (!open.empty()) {
    const auto* node = open.back();
    open.pop_back();
    for (const auto& edge : node->next_edges()) meet(edge.function.get());
  }
  uint64_t all = 1;
  for (const auto* node : seen) {
    if (node == nullptr) continue;
    const auto number = node->sequence_nr();
    const bool is_left_out = std::any_of(left_out.begin(), left_out.end(), [number](const Nodes& other) {
      return other.first <= number && number < other.second;
    });
    if (!is_left_out) all = c10::hash_combine(all, c10::get_hash(&typeid(*node)));
  }
  return all;
}

}  // namespace lockstep
