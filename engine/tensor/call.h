// SPDX-License-Identifier: Apache-2.0
// One op on its way through the engine: what parsing, deciding and placing have found out, and the op's run
// on the locals of each hosted rank.
#pragma once
#include <string_view>

#include "engine/ops/hosted.h"
#include "engine/tensor/operands.h"
#include "engine/values/refused.h"

namespace lockstep {

struct Dispatched {
  const c10::OperatorHandle& op;
  const Resolved& resolved;
  at::ArrayRef<c10::IValue> args;
  ParsedCall& call;  // described when a decision is made
  HostedPtr hosted = nullptr;
  const Decision* decision = nullptr;  // of hosted
  PerOperand<at::Tensor> placed = {};  // the inputs after their routes
};

// Throws Refused for this op and the Specs of its tensors.
[[noreturn]] void refuse(Refusal why, const Dispatched& d, const std::string& problem, std::string remedy);

// t_, squeeze_ and their like: views of the tensor that they are called on, which takes them over.
bool changes_metadata(const Resolved& resolved);
std::vector<at::Tensor> mutated_tensors(const Dispatched& d);

// What a hosted rank has of a placed operand, which may be plain.
const at::Tensor& local_of(const at::Tensor& placed, size_t rank);
// Runs something on what a hosted rank has. Throws KernelError where libtorch refuses that.
void on_rank(const Dispatched& d, size_t rank, c10::function_ref<void()> run);

// What each hosted rank returns. Throws KernelError where libtorch refuses what a rank holds.
std::vector<torch::jit::Stack> run_ranks(const Dispatched& d);
// The same of an op that returns one tensor. An empty stack with room for the arguments is lent to the ranks
// in turn, and nothing is allocated beside what the op itself does, and the list.
PerRank<at::Tensor> run_ranks_of_one(const Dispatched& d, torch::jit::Stack& lent);
// The same, lists flattened, as [output][rank].
std::vector<PerRank<at::Tensor>> by_output(const std::vector<torch::jit::Stack>& results);

}  // namespace lockstep
