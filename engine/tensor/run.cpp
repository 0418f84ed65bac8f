// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/run.h"

#include <torch/csrc/autograd/variable.h>

#include "engine/move/execute.h"
#include "engine/ops/rules/random_ops.h"
#include "engine/tensor/plain_guard.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

void check_shape(const Dispatched& d, const Spec& spec, size_t rank, const LocalForm& form,
                 const at::Tensor& local) {
  if (local.sizes() == at::IntArrayRef(form.shape) && local.scalar_type() == spec.dtype()) return;
  throw Broken(concat("[", d.op.operator_name(), "] rank ", d.call.comm->ranks[rank], " produced ",
                      dtype_name(local.scalar_type()), local.sizes(), ", but ", to_string(spec), " needs ",
                      at::IntArrayRef(form.shape), "; its rule is wrong"));
}

// From its input's, unless the op names an absolute one.
int64_t view_offset(const Dispatched& d, size_t output) {
  if (d.resolved.entry->absolute_offset)
    if (const auto& named = Arguments(d.op.schema(), d.args)["storage_offset"]; !named.isNone())
      return named.toInt();
  return d.decision->call.outputs[output].offset + d.call.tensors[0].storage_offset();
}

// Writes the results back to the interpreter's stack in the shape of the schema's returns.
void push_results(const Dispatched& d, const std::vector<Stack>& results, const std::vector<at::Tensor>& flat,
                  Stack& stack) {
  size_t next = 0;
  for (const auto& value : results.front()) {
    if (value.isTensorList()) {
      std::vector<at::Tensor> list;
      for (size_t k = 0; k < value.toTensorList().size(); ++k) list.push_back(flat[next++]);
      stack.emplace_back(std::move(list));
    } else {
      stack.emplace_back(flat[next++]);
    }
  }
  if (next != flat.size()) throw Broken(concat("[", d.op.operator_name(), "] lost results"));
}

// A DTensor of an output's locals; undefined if the output is.
at::Tensor wrap(const Dispatched& d, size_t output, PerRank<at::Tensor> locals) {
  const auto& spec = d.decision->outputs[output];
  if (spec == nullptr) return {};
  const bool view = d.resolved.entry->kind == OpKind::kView;
  for (size_t r = 0; r < locals.size(); ++r) {
    const auto& form = d.hosted->outputs[output][r];
    check_shape(d, *spec, r, form, locals[r]);
    if (locals[r].strides() == at::IntArrayRef(form.stride)) continue;
    locals[r] = view ? conform_view(locals[r], *spec) : conform(locals[r], *spec);
  }
  auto result = make_dtensor(spec, d.call.comm, std::move(locals));
  // Autograd reads offsets to write gradients through views.
  if (view) result.unsafeGetTensorImpl()->set_storage_offset(view_offset(d, output));
  return result;
}

std::vector<at::Tensor> run_values(const Dispatched& d, Stack& stack) {
  const auto results = run_ranks(d);
  auto locals = by_output(results);
  std::vector<at::Tensor> flat;
  flat.reserve(locals.size());
  for (size_t j = 0; j < locals.size(); ++j) flat.push_back(wrap(d, j, std::move(locals[j])));
  push_results(d, results, flat, stack);
  return flat;
}

std::vector<at::Tensor> run_in_place(const Dispatched& d, Stack& stack) {
  const bool metadata = changes_metadata(d.resolved);
  const auto results = run_ranks(d);
  const auto changed = mutated_tensors(d);
  if (d.resolved.raises_versions)
    for (const auto& t : changed) torch::autograd::impl::bump_version(t);
  if (metadata) {
    auto locals = by_output(results);
    dtensor_impl(changed[0])->reset(d.decision->outputs[0], std::move(locals[0]));
  }
  if (!d.op.schema().returns().empty()) {
    if (results.front().front().isTensorList())
      stack.emplace_back(changed);
    else
      stack.emplace_back(changed[0]);
  }
  return changed;
}

std::vector<at::Tensor> run_random(const Dispatched& d, Stack& stack) {
  const PlainGuard guard;
  std::vector<PerRank<at::Tensor>> placed;
  for (const auto& t : d.placed) {
    const auto* impl = dtensor_impl(t);
    placed.push_back(impl != nullptr ? impl->locals()
                                     : PerRank<at::Tensor>(d.call.comm->positions.size(), t));
  }
  auto results = random_op(*d.resolved.entry, {d.op, d.decision->call, d.args, d.call.operands.specs, placed,
                                               d.decision->outputs, *d.call.comm});
  std::vector<at::Tensor> outputs;
  if (d.resolved.variant == Variant::kInPlace) {
    const auto& self = d.call.tensors[0];
    const auto& locals = dtensor_impl(self)->locals();
    for (size_t r = 0; r < locals.size(); ++r) locals[r].copy_(results[0][r]);
    outputs = {self};
  } else {
    for (size_t j = 0; j < results.size(); ++j) outputs.push_back(wrap(d, j, std::move(results[j])));
  }
  for (const auto& t : outputs) stack.emplace_back(t);
  return outputs;
}

}  // namespace

std::vector<at::Tensor> run(const Dispatched& d, Stack& stack) {
  const auto variant = d.resolved.variant;
  if (d.resolved.entry->kind == OpKind::kRandom) return run_random(d, stack);
  const bool in_place = variant == Variant::kInPlace || (variant == Variant::kList && d.resolved.mutated[0]);
  return in_place ? run_in_place(d, stack) : run_values(d, stack);
}

void run_scalar(const Dispatched& d, Stack& stack) {
  std::optional<c10::IValue> first;
  const auto results = run_ranks(d);
  for (size_t r = 0; r < results.size(); ++r) {
    const auto& value = results[r].front();
    const auto text = concat(value);
    LOCKSTEP_CHECK(!first.has_value() || concat(*first) == text, "[", d.op.operator_name(), "] rank ",
                   d.call.comm->ranks[r], " reads ", text, " where rank ", d.call.comm->ranks[0], " reads ",
                   first.has_value() ? concat(*first) : "", "; replicas have diverged");
    if (!first.has_value()) first = value;
  }
  stack.push_back(*first);
}

}  // namespace lockstep
