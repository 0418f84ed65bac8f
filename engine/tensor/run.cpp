// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/run.h"

#include <torch/csrc/autograd/variable.h>

#include "engine/move/execute.h"
#include "engine/move/replicas.h"
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
void push_results(const Dispatched& d, const std::vector<Stack>& results, at::ArrayRef<at::Tensor> flat,
                  Stack& stack) {
  size_t next = 0;
  for (size_t place = 0; place < results.front().size(); ++place) {
    const auto& value = results.front()[place];
    if (value.isTensorList()) {
      std::vector<at::Tensor> list;
      for (size_t k = 0; k < value.toTensorList().size(); ++k) list.push_back(flat[next++]);
      stack.emplace_back(std::move(list));
    } else if (value.isTensor() || value.isNone()) {
      stack.emplace_back(flat[next++]);
    } else {
      stack.push_back(agreed(d, results, place));
      ++next;
    }
  }
  if (next != flat.size()) throw Broken(concat("[", d.op.operator_name(), "] lost results"));
}

// Whether a whole tensor lies as on one device though it is not dense: memory that a factory was asked to lay
// over itself.
bool lies_as_whole(const Spec& spec, const at::Tensor& local) {
  return local.sizes() == at::IntArrayRef(spec.shape()) && local.strides() == at::IntArrayRef(spec.stride());
}

// A DTensor of an output's locals; undefined if the output is.
at::Tensor wrap(const Dispatched& d, size_t output, PerRank<at::Tensor> locals) {
  const auto& spec = d.decision->outputs[output];
  if (spec == nullptr) return {};
  const bool view = d.resolved.entry->kind == OpKind::kView;
  Replicas conformed(*d.call.comm);
  for (size_t r = 0; r < locals.size(); ++r) {
    const auto& form = d.hosted->outputs[output][r];
    check_shape(d, *spec, r, form, locals[r]);
    if (locals[r].strides() == at::IntArrayRef(form.stride) || lies_as_whole(*spec, locals[r])) continue;
    locals[r] = view ? conform_view(locals[r], *spec) : conform(locals[r], *spec);
    if (!view) conformed.settle(*spec, output, r, locals[r], 1);
  }
  auto result = make_dtensor(spec, d.call.comm, std::move(locals));
  if (view) dtensor_impl(result)->become_view(*dtensor_impl(d.call.tensors[0]), view_offset(d, output));
  return result;
}

bool returns_one(const c10::FunctionSchema& schema) {
  return schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
}

PerOperand<at::Tensor> run_one(const Dispatched& d, Stack& stack) {
  Stack own;
  auto result = wrap(d, 0, run_ranks_of_one(d, stack.empty() ? stack : own));
  stack.emplace_back(result);
  return {result};
}

PerOperand<at::Tensor> run_values(const Dispatched& d, Stack& stack) {
  if (returns_one(d.op.schema())) return run_one(d, stack);
  const auto results = run_ranks(d);
  auto locals = by_output(results);
  PerOperand<at::Tensor> flat;
  for (size_t j = 0; j < locals.size(); ++j) flat.push_back(wrap(d, j, std::move(locals[j])));
  push_results(d, results, flat, stack);
  return flat;
}

// A DTensor of results that every rank has made of the same whole tensors.
at::Tensor replicas(const Dispatched& d, PerRank<at::Tensor> locals) {
  const auto& first = locals.front();
  if (!first.defined()) return {};
  const auto& comm = *d.call.comm;
  if (first.layout() != at::kStrided || first.is_nested() || first.is_complex() || first.is_quantized())
    refuse(Refusal::kNoRule, d,
           concat("gives a ", first.is_nested() ? "nested" : concat(first.layout()), " tensor of dtype ",
                  first.scalar_type(), ", and a DTensor is dense and real; "),
           "call it on full_tensor()");
  const auto spec =
      std::make_shared<const Spec>(comm.mesh, Placements(static_cast<size_t>(comm.mesh.ndim()), Replicate{}),
                                   first.sizes().vec(), first.strides().vec(), first.scalar_type());
  for (size_t r = 0; r < locals.size(); ++r) {
    LOCKSTEP_CHECK(locals[r].sizes() == first.sizes(), "[", d.op.operator_name(), "] rank ", comm.ranks[r],
                   " gives ", locals[r].sizes(), " where rank ", comm.ranks[0], " gives ", first.sizes(),
                   "; replicas have diverged");
    locals[r] = conform(locals[r], *spec);
  }
  return make_dtensor(spec, d.call.comm, std::move(locals));
}

PerOperand<at::Tensor> run_whole(const Dispatched& d, Stack& stack) {
  const auto results = run_ranks(d);
  PerOperand<at::Tensor> flat;
  for (auto& locals : by_output(results)) flat.push_back(replicas(d, std::move(locals)));
  push_results(d, results, flat, stack);
  return flat;
}

PerOperand<at::Tensor> run_in_place(const Dispatched& d, Stack& stack) {
  const bool metadata = changes_metadata(d.resolved);
  const auto results = run_ranks(d);
  const auto changed = mutated_tensors(d);
  // On plain tensors a loop of in-place ops, each of which raises one; libtorch's _fused_ ops raise none.
  if (d.resolved.variant == Variant::kList)
    for (const auto& t : changed) torch::autograd::impl::bump_version(t);
  if (metadata) {
    auto locals = by_output(results);
    const int64_t offset = view_offset(d, 0);
    dtensor_impl(changed[0])->reset(d.decision->outputs[0], std::move(locals[0]));
    changed[0].unsafeGetTensorImpl()->set_storage_offset(offset);
  }
  if (!d.op.schema().returns().empty()) {
    if (results.front().front().isTensorList())
      stack.emplace_back(changed);
    else
      stack.emplace_back(changed[0]);
  }
  return {changed.begin(), changed.end()};
}

PerOperand<at::Tensor> run_random(const Dispatched& d, Stack& stack) {
  const PlainGuard guard;
  std::vector<PerRank<at::Tensor>> placed;
  for (const auto& t : d.placed) {
    const auto* impl = dtensor_impl(t);
    placed.push_back(impl != nullptr ? impl->locals()
                                     : PerRank<at::Tensor>(d.call.comm->positions.size(), t));
  }
  auto results = random_op(*d.resolved.entry, {d.op, d.decision->call, d.args, d.call.operands.specs, placed,
                                               d.decision->outputs, *d.call.comm});
  PerOperand<at::Tensor> outputs;
  if (d.resolved.variant == Variant::kInPlace) {
    const auto& self = d.call.tensors[0];
    const auto& locals = dtensor_impl(self)->locals();
    for (size_t r = 0; r < locals.size(); ++r) locals[r].copy_(results[0][r]);
    outputs.push_back(self);
  } else {
    for (size_t j = 0; j < results.size(); ++j) outputs.push_back(wrap(d, j, std::move(results[j])));
  }
  for (const auto& t : outputs) stack.emplace_back(t);
  return outputs;
}

bool writes_its_results(const Dispatched& d) {
  const auto variant = d.resolved.variant;
  return variant == Variant::kInPlace || (variant == Variant::kList && d.resolved.mutated[0]);
}

[[noreturn]] void refuse_nowhere(const Dispatched& d) {
  refuse(Refusal::kMeshes, d,
         concat("gives what depends on values, of which none are here: this process hosts no rank of mesh ",
                d.call.comm->mesh, "; "),
         "call it where some are hosted, or redistribute to a mesh that has ranks here");
}

// Where no rank of the mesh is hosted an op gives what it gives elsewhere, of which nothing is here.
PerOperand<at::Tensor> run_nowhere(const Dispatched& d, Stack& stack) {
  if (d.resolved.entry->kind == OpKind::kWhole) refuse_nowhere(d);
  std::vector<at::Tensor> results;
  if (writes_its_results(d))
    results = mutated_tensors(d);
  else
    for (size_t j = 0; j < d.decision->outputs.size(); ++j) results.push_back(wrap(d, j, {}));
  if (changes_metadata(d.resolved)) dtensor_impl(results[0])->reset(d.decision->outputs[0], {});
  const auto& returns = d.op.schema().returns();
  if (!returns.empty() && returns[0].type()->kind() == c10::TypeKind::ListType)
    stack.emplace_back(results);
  else
    for (size_t j = 0; j < returns.size(); ++j) stack.emplace_back(results[j]);
  return {results.begin(), results.end()};
}

}  // namespace

const c10::IValue& agreed(const Dispatched& d, const std::vector<Stack>& results, size_t place) {
  const auto& first = results.front()[place];
  for (size_t r = 1; r < results.size(); ++r) {
    const auto text = concat(results[r][place]);
    LOCKSTEP_CHECK(text == concat(first), "[", d.op.operator_name(), "] rank ", d.call.comm->ranks[r],
                   " reads ", text, " where rank ", d.call.comm->ranks[0], " reads ", first,
                   "; replicas have diverged");
  }
  return first;
}

PerOperand<at::Tensor> run(const Dispatched& d, Stack& stack) {
  if (d.resolved.entry->kind == OpKind::kRandom) return run_random(d, stack);
  const bool nowhere = d.call.comm->positions.empty();
  if (writes_its_results(d)) return nowhere ? run_nowhere(d, stack) : run_in_place(d, stack);
  if (d.resolved.entry->returns_input) {
    stack.emplace_back(d.call.tensors[0]);
    return {d.call.tensors[0]};
  }
  if (nowhere) return run_nowhere(d, stack);
  return d.resolved.entry->kind == OpKind::kWhole ? run_whole(d, stack) : run_values(d, stack);
}

void run_scalar(const Dispatched& d, Stack& stack) {
  if (d.call.comm->positions.empty()) refuse_nowhere(d);
  stack.push_back(agreed(d, run_ranks(d), 0));
}

}  // namespace lockstep
