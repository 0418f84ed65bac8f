// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/call.h"

#include "engine/lane/numerics.h"
#include "engine/move/replicas.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/text.h"

namespace lockstep {

using torch::jit::Stack;

void refuse(Refusal why, const Dispatched& d, const std::string& problem, std::string remedy) {
  throw Refused(why, concat(d.op.operator_name()), specs_of(d.call), problem, std::move(remedy));
}

bool changes_metadata(const Resolved& resolved) {
  return resolved.variant == Variant::kInPlace && resolved.entry->kind == OpKind::kView;
}

std::vector<at::Tensor> mutated_tensors(const Dispatched& d) {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < d.call.tensors.size(); ++i)
    if (d.call.operands.mutated[i] && d.call.operands.specs[i] != nullptr)
      result.push_back(d.call.tensors[i]);
  return result;
}

const at::Tensor& local_of(const at::Tensor& placed, size_t rank) {
  const auto* impl = dtensor_impl(placed);
  return impl == nullptr ? placed : impl->locals()[rank];
}

// A kernel's errors tell neither the op nor the rank, nor what the rank holds.
[[noreturn]] static void refuse_locals(const Dispatched& d, size_t rank, const std::string& said) {
  std::string locals;
  for (const auto& placed : d.placed) {
    if (!placed.defined()) continue;
    const auto& local = local_of(placed, rank);
    locals += concat(locals.empty() ? "" : ", ", dtype_name(local.scalar_type()), '[',
                     shape_text(local.sizes().vec()), ']');
  }
  const auto& comm = *d.call.comm;
  throw KernelError(
      concat(d.op.operator_name()),
      concat("on rank ", comm.ranks[rank], " at (", join(comm.mesh.coordinate(comm.positions[rank]), ','),
             "): ", said.substr(0, said.find('\n')), "; locals ", locals));
}

void on_rank(const Dispatched& d, size_t rank, c10::function_ref<void()> run) {
  try {
    run();
  } catch (const c10::Error& error) {
    refuse_locals(d, rank, error.what_without_backtrace());
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {  // a number that a dtype does not hold
    refuse_locals(d, rank, error.what());
  }
}

// What a rank has just computed is kept once with its replicas, before the next rank computes.
static void settle(Replicas& replicas, const Dispatched& d, size_t rank, Stack& stack) {
  const auto& outputs = d.decision->outputs;
  if (d.resolved.entry->kind != OpKind::kValue || d.resolved.variant != Variant::kFunctional ||
      stack.size() != outputs.size())
    return;
  for (size_t j = 0; j < outputs.size(); ++j) {
    if (outputs[j] == nullptr || !stack[j].isTensor()) continue;
    auto local = std::move(stack[j]).toTensor();
    replicas.settle(*outputs[j], j, rank, local, 1);
    stack[j] = std::move(local);
  }
}

// The results of one hosted rank, in an empty stack.
static void run_rank(const Dispatched& d, size_t rank, Replicas& replicas, Stack& stack) {
  const auto& decision = *d.decision;
  push_with_tensors(stack, d.resolved, d.args, [&](size_t i) { return local_of(d.placed[i], rank); });
  on_rank(d, rank, [&] {
    d.resolved.entry->run[entered_lane()](
        {d.op, decision.call, decision.inputs, decision.outputs, d.call.comm->positions[rank]}, stack);
    settle(replicas, d, rank, stack);
  });
}

std::vector<Stack> run_ranks(const Dispatched& d) {
  std::vector<Stack> results(d.call.comm->positions.size());
  const PlainGuard guard;
  Replicas replicas(*d.call.comm);
  for (size_t r = 0; r < results.size(); ++r) {
    results[r].reserve(d.args.size());
    run_rank(d, r, replicas, results[r]);
  }
  return results;
}

PerRank<at::Tensor> run_ranks_of_one(const Dispatched& d, Stack& lent) {
  PerRank<at::Tensor> locals;
  locals.reserve(d.call.comm->positions.size());
  const PlainGuard guard;
  Replicas replicas(*d.call.comm);
  for (size_t r = 0; r < d.call.comm->positions.size(); ++r) {
    run_rank(d, r, replicas, lent);
    locals.push_back(lent.front().isTensor() ? std::move(lent.front()).toTensor() : at::Tensor());
    lent.clear();
  }
  return locals;
}

std::vector<PerRank<at::Tensor>> by_output(const std::vector<Stack>& results) {
  std::vector<PerRank<at::Tensor>> outputs;
  outputs.reserve(results.front().size());
  for (const auto& stack : results) {
    size_t j = 0;
    const auto add = [&](at::Tensor t) {
      if (j == outputs.size()) outputs.emplace_back().reserve(results.size());
      outputs[j++].push_back(std::move(t));
    };
    for (const auto& value : stack) {
      if (value.isTensorList())
        for (const at::Tensor& t : value.toTensorList()) add(t);
      else
        add(value.isTensor() ? value.toTensor() : at::Tensor());
    }
  }
  return outputs;
}

}  // namespace lockstep
