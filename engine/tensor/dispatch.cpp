// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/dispatch.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "engine/move/execute.h"
#include "engine/ops/hosted.h"
#include "engine/ops/infer.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/composites.h"
#include "engine/tensor/explicit_redistribution.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/operands.h"
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/random_ops.h"
#include "engine/tensor/redistribute.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

constexpr size_t kCacheLimit = 16384;  // decisions; then the cache starts anew

thread_local DispatchCounters g_counters;
thread_local CommPtr g_factory_comm;

std::unordered_map<CacheKey, HostedPtr, CacheKeyHash>& decisions() {
  thread_local std::unordered_map<CacheKey, HostedPtr, CacheKeyHash> map;
  thread_local uint64_t version = 0;
  if (rules_changed(version)) map.clear();
  return map;
}

// One call on its way through the engine.
struct Dispatched {
  const c10::OperatorHandle& op;
  const Resolved& resolved;
  at::ArrayRef<c10::IValue> args;
  ParsedCall call;
  HostedPtr hosted;
  const Decision* decision = nullptr;  // of hosted
  PerOperand<at::Tensor> placed;       // the inputs after their routes
};

bool changes_metadata(const Resolved& resolved) {
  return resolved.variant == Variant::kInPlace && resolved.entry->kind == OpKind::kView;
}

std::vector<TensorMeta> outputs_of(const Dispatched& d) {
  if (d.resolved.entry->kind == OpKind::kScalar) return {};
  if (d.resolved.variant == Variant::kList && d.op.schema().returns().empty()) return {};
  if (d.resolved.variant == Variant::kInPlace && !changes_metadata(d.resolved))
    return {d.call.operands.metas[0]};
  PlainGuard guard;
  return infer_outputs(d.op, on_meta(d.resolved, d.args, d.call));
}

std::shared_ptr<const Decision> compute_decision(const Dispatched& d, MayMove may_move) {
  auto args = constants(d.resolved, d.args, d.call);
  const auto outputs = outputs_of(d);
  if (d.resolved.variant == Variant::kList)
    return decide_list(d.op, d.resolved, d.call.operands, std::move(args), outputs);
  return decide(d.op, d.resolved, d.call.operands, std::move(args), outputs, may_move);
}

// What a composite op or a formula of autograd has made is seen by nobody else. Of what is written in a
// backward pass only these are known to be such.
MayMove may_move(const Dispatched& d) {
  static const std::set<std::string> kOwn = {"aten::index_add_", "aten::scatter_add_"};
  const bool own = in_composite() || (in_backward_pass() && kOwn.contains(d.op.schema().name()) &&
                                      !d.call.tensors[0].is_view());
  return {.viewed = in_composite() || in_backward_pass(),
          .written = own && d.resolved.variant == Variant::kInPlace && !changes_metadata(d.resolved)};
}

// Two Worlds may place one mesh on other ranks of this process: the decision is the same, its hosts are not.
void find_decision(Dispatched& d) {
  const auto may = may_move(d);
  auto key = cache_key(d.op, d.resolved, d.args, d.call, may);
  auto& cache = decisions();
  if (const auto it = cache.find(key); it != cache.end()) {
    ++g_counters.cache_hits;
    if (it->second->positions != d.call.comm->positions)
      it->second = host(it->second->decision, *d.call.comm);
    d.hosted = it->second;
  } else {
    ++g_counters.cache_misses;
    describe(d.call);
    d.hosted = host(compute_decision(d, may), *d.call.comm);
    if (cache.size() >= kCacheLimit) cache.clear();
    cache.emplace(std::move(key), d.hosted);
  }
  d.decision = d.hosted->decision.get();
}

void refuse_implicit(const Dispatched& d) {
  std::string moves;
  for (size_t i = 0; i < d.decision->routes.size(); ++i)
    if (!d.decision->routes[i].steps.empty())
      moves += concat("\n  input ", i, ": redistribute(", to_string(d.decision->inputs[i]->placements()),
                      ") of ", to_string(*d.call.operands.specs[i]));
  throw Error(concat("[", d.op.operator_name(),
                     "] would redistribute implicitly, which ExplicitRedistribution forbids:", moves));
}

// A list op writes element by element, so that a later element may read what an earlier one wrote; a
// redistributed copy would be of the older state.
void refuse_stale_reads(const Dispatched& d) {
  const auto local = [&](size_t i) { return dtensor_impl(d.call.tensors[i])->locals().front(); };
  for (size_t i = 0; i < d.placed.size(); ++i) {
    if (d.call.operands.specs[i] == nullptr || d.decision->routes[i].steps.empty()) continue;
    for (size_t j = 0; j < d.placed.size(); ++j)
      LOCKSTEP_CHECK(
          !d.call.operands.mutated[j] || d.call.operands.specs[j] == nullptr ||
              !local(i).is_alias_of(local(j)),
          "[", d.op.operator_name(), "] reads ", to_string(*d.call.operands.specs[i]),
          " in other placements than it writes it in; redistribute it first, into a tensor of its own");
  }
}

// Whether not a copy moves but the tensor itself: one that the op writes, or autograd, which writes gradients
// through as_strided views of tensors that it has just made.
bool moves_itself(const Dispatched& d, size_t input) {
  return d.call.operands.mutated[input] || (in_backward_pass() && d.op.schema().name() == "aten::as_strided");
}

void place_inputs(Dispatched& d) {
  if (d.decision->redistributes && explicit_redistribution_required()) refuse_implicit(d);
  d.placed = d.call.tensors;
  if (!d.decision->redistributes) return;
  if (d.resolved.variant == Variant::kList) refuse_stale_reads(d);
  PlainGuard guard;
  for (size_t i = 0; i < d.placed.size(); ++i) {
    if (d.call.operands.specs[i] == nullptr || d.decision->routes[i].steps.empty()) continue;
    ++g_counters.redistributions;
    d.placed[i] = run_route(d.placed[i], d.decision->routes[i], true);
    if (moves_itself(d, i))
      dtensor_impl(d.call.tensors[i])
          ->reset(dtensor_impl(d.placed[i])->spec(), dtensor_impl(d.placed[i])->locals());
  }
}

Stack local_stack(const Dispatched& d, size_t rank) {
  return with_tensors(d.resolved, d.args, [&](size_t i) {
    const auto* impl = dtensor_impl(d.placed[i]);
    return impl == nullptr ? d.placed[i] : impl->locals()[rank];
  });
}

void run_local(const Dispatched& d, size_t rank, Stack& stack) {
  const LocalCall local{d.op, d.decision->call, d.decision->inputs, d.decision->outputs,
                        d.call.comm->positions[rank]};
  d.resolved.entry->run(local, stack);
}

// results[rank] as the op returned them; flattened to results[output][rank].
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

void check_shape(const Dispatched& d, const Spec& spec, size_t rank, const LocalForm& form,
                 const at::Tensor& local) {
  if (local.sizes() == at::IntArrayRef(form.shape) && local.scalar_type() == spec.dtype()) return;
  throw Broken(concat("[", d.op.operator_name(), "] rank ", d.call.comm->ranks[rank], " produced ",
                      dtype_name(local.scalar_type()), local.sizes(), ", but ", to_string(spec), " needs ",
                      at::IntArrayRef(form.shape), "; its rule is wrong"));
}

// as_strided names an absolute offset, every other view one from its input's.
int64_t view_offset(const Dispatched& d, size_t output) {
  const int64_t own = d.decision->call.outputs[output].offset;
  const bool absolute = d.op.schema().name() == "aten::as_strided" && !d.args[3].isNone();
  return absolute ? d.args[3].toInt() : own + d.call.tensors[0].storage_offset();
}

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

// --- the timeline ---

TimelineEntry begin_entry(const Dispatched& d) {
  TimelineEntry entry;
  entry.op = d.op.schema().name();
  if (!d.op.schema().overload_name().empty()) entry.op += "." + d.op.schema().overload_name();
  entry.args = constants(d.resolved, d.args, d.call);
  entry.tensors_per_arg.assign(d.args.size(), -1);
  for (size_t i = 0; i < d.args.size(); ++i)
    if (d.resolved.kinds[i] != ArgKind::kConstant) entry.tensors_per_arg[i] = 0;
  for (size_t i = 0; i < d.placed.size(); ++i) {
    const size_t arg = d.call.operands.arg[i];
    if (d.call.operands.specs[i] == nullptr) {
      const bool constant = d.call.operands.metas[i].defined;
      if (constant && d.resolved.kinds[arg] == ArgKind::kTensor) entry.tensors_per_arg[arg] = -1;
      continue;
    }
    ++entry.tensors_per_arg[arg];
    entry.inputs.push_back(record(d.placed[i]));
  }
  if (d.resolved.entry->kind == OpKind::kRandom) entry.random_offset = generator().state.offset;
  return entry;
}

// For each output, which of the listed inputs it is.
std::vector<int64_t> aliases(const Dispatched& d, size_t outputs) {
  std::vector<int64_t> result(outputs, -1);
  if (d.resolved.variant == Variant::kFunctional) return result;
  size_t j = 0;
  int64_t listed = 0;
  for (size_t i = 0; i < d.call.tensors.size() && j < outputs; ++i) {
    if (d.call.operands.specs[i] == nullptr) continue;
    if (d.call.operands.mutated[i]) result[j++] = listed;
    ++listed;
  }
  return result;
}

void end_entry(const Dispatched& d, TimelineEntry entry, const std::vector<at::Tensor>& outputs) {
  for (const auto& t : outputs) entry.outputs.push_back(record(t));
  entry.aliases = aliases(d, entry.outputs.size());
  current_timeline()->push_back(std::move(entry));
}

std::vector<at::Tensor> mutated_tensors(const Dispatched& d) {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < d.call.tensors.size(); ++i)
    if (d.call.operands.mutated[i] && d.call.operands.specs[i] != nullptr)
      result.push_back(d.call.tensors[i]);
  return result;
}

// --- the kinds of ops ---

// The results of each hosted rank.
std::vector<Stack> run_ranks(const Dispatched& d) {
  const size_t ranks = d.call.comm->positions.size();
  std::vector<Stack> results;
  results.reserve(ranks);
  PlainGuard guard;
  for (size_t r = 0; r < ranks; ++r) run_local(d, r, results.emplace_back(local_stack(d, r)));
  return results;
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

// On a plain tensor a foreach op is a loop over in-place ops, each of which raises a version; autograd tells
// from versions that the history of a view is out of date.
void raise_versions(const Dispatched& d, const std::vector<at::Tensor>& changed) {
  if (!d.op.schema().name().starts_with("aten::_foreach_")) return;
  for (const auto& t : changed) torch::autograd::impl::bump_version(t);
}

// In-place ops write to the locals and return the very arguments they were given.
std::vector<at::Tensor> run_in_place(const Dispatched& d, Stack& stack) {
  const bool metadata = changes_metadata(d.resolved);
  const auto results = run_ranks(d);
  const auto changed = mutated_tensors(d);
  raise_versions(d, changed);
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

void run_random(const Dispatched& d, Stack& stack, std::vector<at::Tensor>& outputs) {
  PlainGuard guard;
  auto results = random_op(
      {d.op, d.decision->call, d.args, d.call.operands.specs, d.placed, d.decision->outputs, *d.call.comm});
  if (d.resolved.variant == Variant::kInPlace) {
    const auto& self = d.call.tensors[0];
    const auto& locals = dtensor_impl(self)->locals();
    for (size_t r = 0; r < locals.size(); ++r) locals[r].copy_(results[0][r]);
    outputs = {self};
  } else {
    for (size_t j = 0; j < results.size(); ++j) outputs.push_back(wrap(d, j, std::move(results[j])));
  }
  for (const auto& t : outputs) stack.emplace_back(t);
}

// A value read on the host: the same on every rank, or the ranks would part ways.
void run_scalar(const Dispatched& d, Stack& stack) {
  PlainGuard guard;
  std::optional<c10::IValue> first;
  for (size_t r = 0; r < d.call.comm->positions.size(); ++r) {
    auto local = local_stack(d, r);
    d.op.callBoxed(local);
    const auto& value = local.front();
    const auto text = concat(value);
    LOCKSTEP_CHECK(!first.has_value() || concat(*first) == text, "[", d.op.operator_name(), "] rank ",
                   d.call.comm->ranks[r], " reads ", text, " where rank ", d.call.comm->ranks[0], " reads ",
                   first.has_value() ? concat(*first) : "", "; replicas have diverged");
    if (!first.has_value()) first = value;
  }
  stack.push_back(*first);
}

// out= variants: the functional op, then a copy; an empty out takes the result over.
void run_out(const Dispatched& d, Stack& stack);

// Reached only while Fake is included by thread: a factory within a FactoryScope makes replicated DTensors.
void run_without_dtensors(const c10::OperatorHandle& op, const ParsedCall& call, Stack& stack) {
  c10::impl::ExcludeDispatchKeyGuard exclude(c10::DispatchKey::Fake);
  op.callBoxed(stack);
  if (g_factory_comm == nullptr || !call.tensors.empty() || !stack.back().isTensor()) return;
  stack.back() = replicated(stack.back().toTensor(), g_factory_comm);
}

void no_rule(const c10::OperatorHandle& op, const ParsedCall& call) {
  std::string operands;
  for (const auto& spec : call.operands.specs)
    if (spec != nullptr) operands += concat(operands.empty() ? "" : ", ", to_string(*spec));
  LOCKSTEP_CHECK(!op.hasTag(at::Tag::nondeterministic_seeded), "[", op.operator_name(),
                 "] draws random numbers, and Lockstep has no stream for it on a DTensor (", operands,
                 "); draw it on a plain tensor and distribute_tensor the result");
  throw Error(concat("[", op.operator_name(), "] has no sharding rule for (", operands,
                     "); add one with lockstep::register_sharding(\"", op.schema().name(),
                     "\", rows), or call the op on full_tensor()"));
}

void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& resolved = resolve(op);
  if (resolved.composite) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  const size_t n = op.schema().arguments().size();
  const std::span given(stack->data() + stack->size() - n, n);
  auto call = parse(op, resolved, at::ArrayRef<c10::IValue>(given.data(), n));
  if (call.comm == nullptr) return run_without_dtensors(op, call, *stack);
  if (resolved.entry == nullptr) no_rule(op, call);
  const c10::SmallVector<c10::IValue, 8> args(std::make_move_iterator(given.begin()),
                                              std::make_move_iterator(given.end()));
  torch::jit::drop(*stack, n);
  ++g_counters.ops;
  Dispatched d{op, resolved, args, std::move(call), nullptr, nullptr, {}};
  if (resolved.variant == Variant::kOut) return run_out(d, *stack);
  find_decision(d);
  place_inputs(d);
  if (resolved.entry->kind == OpKind::kScalar) return run_scalar(d, *stack);
  auto entry = current_timeline() != nullptr ? std::optional(begin_entry(d)) : std::nullopt;
  std::vector<at::Tensor> outputs;
  const bool in_place =
      resolved.variant == Variant::kInPlace || (resolved.variant == Variant::kList && d.resolved.mutated[0]);
  if (resolved.entry->kind == OpKind::kRandom)
    run_random(d, *stack, outputs);
  else
    outputs = in_place ? run_in_place(d, *stack) : run_values(d, *stack);
  if (entry.has_value()) end_entry(d, std::move(*entry), outputs);
}

// The overload of the same op that takes the same arguments but for the outs.
std::optional<c10::OperatorHandle> functional_of(const c10::OperatorHandle& op, size_t args) {
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != op.schema().name()) continue;
    const auto candidate = c10::Dispatcher::singleton().findSchema(name);
    if (!candidate.has_value() || candidate->schema().arguments().size() != args) continue;
    bool same = !candidate->schema().is_mutable();
    for (size_t i = 0; same && i < args; ++i)
      same = *candidate->schema().arguments()[i].type() == *op.schema().arguments()[i].type();
    if (same) return candidate;
  }
  return std::nullopt;
}

// These draw into out in the order of its memory; the functional op's result is contiguous, or lies as the
// probabilities.
void check_memory_of_out(const Dispatched& d, const at::Tensor& out) {
  const auto& name = d.op.schema().name();
  if ((name != "aten::normal" && name != "aten::bernoulli") || out.numel() == 0) return;
  const bool fits =
      name == "aten::normal" ? out.is_contiguous() : out.strides() == d.call.tensors[0].strides();
  LOCKSTEP_CHECK(fits, "[", d.op.operator_name(),
                 "] draws in the order of out's memory, and out has strides ", out.strides(),
                 "; pass an empty out, or copy_ the functional op's result");
}

void run_out(const Dispatched& d, Stack& stack) {
  const auto outs = mutated_tensors(d);
  const size_t n = d.args.size() - outs.size();
  check_memory_of_out(d, outs.back());
  const auto functional = functional_of(d.op, n);
  LOCKSTEP_CHECK(functional.has_value(), "[", d.op.operator_name(),
                 "] has no functional overload to run; call the functional op");
  Stack inner(d.args.begin(), d.args.begin() + static_cast<int64_t>(n));
  functional->callBoxed(inner);
  for (size_t j = 0; j < outs.size(); ++j) {
    const auto value = inner[j].toTensor();
    auto* out = dtensor_impl(outs[j]);
    if (outs[j].sizes() == value.sizes()) {
      outs[j].copy_(value);
    } else {
      LOCKSTEP_CHECK(outs[j].numel() == 0 && outs[j].scalar_type() == value.scalar_type(), "[",
                     d.op.operator_name(), "] out has shape ", outs[j].sizes(), " and the result ",
                     value.sizes(), "; pass an empty out of the same dtype, or one of the result's shape");
      out->reset(dtensor_impl(value)->spec(), dtensor_impl(value)->locals());
    }
    stack.emplace_back(outs[j]);
  }
}

}  // namespace

DispatchCounters& dispatch_counters() {
  return g_counters;
}

void link_dispatch() {
  link_composites();
}

FactoryScope::FactoryScope(CommPtr comm) : include_(c10::DispatchKey::Fake), comm_(std::move(comm)) {
  std::swap(g_factory_comm, comm_);
}
FactoryScope::~FactoryScope() {
  std::swap(g_factory_comm, comm_);
}

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>());
}

}  // namespace lockstep
