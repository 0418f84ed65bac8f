// SPDX-License-Identifier: Apache-2.0
// What runs where a bypass is for a call: the op on what each rank has, and nothing before it.
#include "engine/ops/rules/bypass.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/layout/layout.h"
#include "engine/move/execute.h"
#include "engine/move/replicas.h"
#include "engine/tensor/cache.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/run.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

[[noreturn]] void call_wrong(const Dispatched& d, const std::string& problem) {
  throw Broken(
      concat("[", d.op.operator_name(), "] of ", specs_of(d.call), ": ", problem, "; its bypass is wrong"));
}

void check_spec(const Dispatched& d, const SpecPtr& out) {
  if (out == nullptr) call_wrong(d, "nothing is said to come out");
  if (out->mesh() != d.call.comm->mesh) call_wrong(d, concat(*out, " is on mesh ", out->mesh()));
}

// Whether an operand is a term of what comes out, and this rank is not the one that has it.
bool is_elsewhere(const Dispatched& d, const SpecPtr& operand, const Spec& out, size_t rank) {
  if (operand == nullptr || !out.has_partial()) return false;
  const auto coordinate = out.mesh().coordinate(d.call.comm->positions[rank]);
  for (size_t k = 0; k < coordinate.size(); ++k)
    if (is_partial(out.placements()[k], ReduceOp::kSum) && is_replicate(operand->placements()[k]) &&
        coordinate[k] > 0)
      return true;
  return false;
}

at::Tensor identity_as(const at::Tensor& local) {
  return at::scalar_tensor(identity(ReduceOp::kSum, local.scalar_type()), local.options())
      .expand(local.sizes());
}

// The results of one hosted rank, in an empty stack.
void run_rank(const Dispatched& d, const Spec& out, size_t rank, Stack& stack) {
  push_with_tensors(stack, d.resolved, d.args, [&](size_t i) {
    const auto& local = local_of(d.placed[i], rank);
    return is_elsewhere(d, d.call.operands.specs[i], out, rank) ? identity_as(local) : local;
  });
  on_rank(d, rank, [&] { d.op.callBoxed(stack); });
}

// @post local has the form of this rank's part of `out`
void check_local(const Dispatched& d, const Spec& out, size_t rank, const at::Tensor& local) {
  const auto shape = local_shape(out, d.call.comm->positions[rank]);
  if (local.sizes() != at::IntArrayRef(shape) || local.scalar_type() != out.dtype())
    call_wrong(d, concat("rank ", d.call.comm->ranks[rank], " has ", dtype_name(local.scalar_type()),
                         local.sizes(), ", and ", out, " needs ", at::IntArrayRef(shape)));
}

void run_value(const Dispatched& d, const SpecPtr& out, Stack& stack) {
  Stack own;
  auto& lent = stack.empty() ? stack : own;
  PerRank<at::Tensor> locals;
  locals.reserve(d.call.comm->positions.size());
  const PlainGuard guard;
  Replicas replicas(*d.call.comm);
  for (size_t r = 0; r < d.call.comm->positions.size(); ++r) {
    run_rank(d, *out, r, lent);
    auto& local = locals.emplace_back(std::move(lent.front()).toTensor());
    lent.clear();
    check_local(d, *out, r, local);
    local = conform(local, *out);
    replicas.settle(*out, 0, r, local, 1);
  }
  stack.emplace_back(make_dtensor(out, d.call.comm, std::move(locals)));
}

bool share_memory(const Dispatched& d, size_t i, size_t j) {
  for (size_t r = 0; r < d.call.comm->positions.size(); ++r)
    if (local_of(d.placed[i], r).is_alias_of(local_of(d.placed[j], r))) return true;
  return false;
}

// Memory that an operand shares with an out which is another tensor: by the rule, all is read before anything
// is written.
bool reads_what_it_writes(const Dispatched& d) {
  for (size_t i = 0; i < d.placed.size(); ++i)
    for (size_t j = 0; j < d.placed.size(); ++j)
      if (d.call.operands.mutated[j] && !d.call.operands.mutated[i] && d.placed[i].defined() &&
          !d.placed[i].is_same(d.placed[j]) && share_memory(d, i, j))
        return true;
  return false;
}

void run_written(const Dispatched& d, const SpecPtr& out, Stack& stack) {
  const auto written = mutated_tensors(d);
  if (written.size() != 1) call_wrong(d, concat("writes ", written.size(), " DTensors"));
  const auto& given = *dtensor_impl(written[0]);
  if (!(*out == *given.spec())) call_wrong(d, concat(*given.spec(), " is written as ", *out));
  const PlainGuard guard;
  Stack lent;
  lent.reserve(d.args.size());
  for (size_t r = 0; r < d.call.comm->positions.size(); ++r) {
    run_rank(d, *out, r, lent);
    lent.clear();
    check_local(d, *out, r, given.locals()[r]);
  }
  stack.emplace_back(written[0]);
}

// Every rank's truth, reduced as it pends.
void run_truth(const Dispatched& d, const SpecPtr& out, Stack& stack) {
  if (out->dtype() != at::kBool || out->ndim() != 0) call_wrong(d, concat(*out, " is no truth"));
  const PlainGuard guard;
  std::vector<Stack> results(d.call.comm->positions.size());
  PerRank<at::Tensor> truths;
  for (size_t r = 0; r < results.size(); ++r) {
    run_rank(d, *out, r, results[r]);
    truths.push_back(at::full({}, results[r].front().toBool(), local_options(*out)));
  }
  const auto whole =
      std::make_shared<const Spec>(out->with_placements(Placements(out->placements().size(), Replicate{})));
  const auto route = known_route(*d.call.comm->context, out, whole);
  const auto reduced = execute(*route, truths, *d.call.comm, *d.call.comm);
  for (size_t r = 0; r < results.size(); ++r) results[r].front() = reduced[r].item<bool>();
  stack.push_back(agreed(d, results, 0));
}

}  // namespace

bool run_bypass(Dispatched& d, Stack& stack) {
  const auto& context = *d.call.comm->context;
  if (context.timeline != nullptr || context.explicit_redistribution) return false;
  if (d.call.comm->positions.empty()) return false;
  // Rows of ops count the op that gives what an out variant writes.
  if (context.op_inputs != nullptr && d.resolved.variant == Variant::kOut) return false;
  const auto& specs = d.call.operands.specs;
  const BypassCall call{{d.op.schema(), d.args, d.call.comm->mesh.device_type()},
                        {specs.data(), specs.size()}};
  const auto& all = d.resolved.bypasses;
  const auto first = std::find_if(all.begin(), all.end(), [&](const Bypass& b) { return b.inputs(call); });
  if (first == all.end()) return false;
  d.placed = d.call.tensors;
  if (reads_what_it_writes(d)) return false;
  const auto out = first->meta(call);
  check_spec(d, out);
  const Active active([&](auto&) { return activity_of(d, out); });
  if (d.resolved.variant != Variant::kFunctional)
    run_written(d, out, stack);
  else if (d.resolved.entry->kind == OpKind::kScalar)
    run_truth(d, out, stack);
  else
    run_value(d, out, stack);
  return true;
}

}  // namespace lockstep
