// SPDX-License-Identifier: Apache-2.0
// The fallback behind DispatchKey::Fake: unwrap, decide (cached), redistribute, run on every hosted rank,
// wrap.
#include <torch/library.h>

#include "engine/context/asking.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/init.h"
#include "engine/tensor/op_inputs.h"
#include "engine/tensor/plain_ops.h"
#include "engine/tensor/run.h"
#include "engine/tensor/timeline_log.h"
#include "engine/tensor/zeros.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

// What a factory within a FactoryScope has made, as a DTensor.
at::Tensor as_factories_make(const c10::OperatorHandle& op, const at::Tensor& tensor) {
  const auto& context = *current_context();
  auto made = is_dtensor(tensor) ? tensor : replicated(tensor, context.factories);
  if (context.factory_placements.empty()) return made;
  const at::NoGradGuard leaf;
  for (const auto& p : context.factory_placements)
    LOCKSTEP_CHECK(!is_shard(p) || shard_dim(p) < tensor.dim(), "[", op.operator_name().name,
                   "] makes a tensor of shape ", tensor.sizes(),
                   ", and a plan says of factories there that it is ", context.factory_placements,
                   "; leave that row out, and place what is made by redistribute()");
  return redistribute(made, context.factory_placements);
}

// Reached only while Fake is included by thread: a factory within a FactoryScope makes DTensors, one within a
// node of a backward pass what is autograd's own.
void run_without_dtensors(const c10::OperatorHandle& op, const ParsedCall& call, Stack& stack) {
  const bool is_factory = current_context()->factories != nullptr && call.tensors.empty();
  if (is_factory && op.hasTag(at::Tag::nondeterministic_seeded) &&
      op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd)) {
    {
      // Memory, and then an op on a DTensor.
      const Within whole(&Context::factory_placements, Placements());
      op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, stack);
    }
    stack.back() = as_factories_make(op, stack.back().toTensor());
    return;
  }
  c10::impl::ExcludeDispatchKeyGuard exclude(c10::DispatchKey::Fake);
  op.callBoxed(stack);
  if (!stack.empty() && stack.back().isTensor() && stack.back().toTensor().defined() &&
      stack.back().toTensor()._is_zerotensor()) {
    stack.back() = at::zeros(stack.back().toTensor().sizes(), stack.back().toTensor().options());
    if (const auto& gradients = current_context()->gradients; gradients != nullptr) {
      stack.back() = replicated(stack.back().toTensor(), gradients);
      return mark_zeros(stack.back().toTensor());
    }
  }
  if (is_factory && stack.back().isTensor())
    stack.back() = as_factories_make(op, stack.back().toTensor());
  else
    mark_if_autograds(op, call.tensors, stack);
}

// False: the op runs by its rows; what is composed redistributes where no program asks for it.
bool run_shared(const Dispatched& d, Stack& stack) {
  const auto kind = d.resolved.entry->of_shared;
  if (kind == OfShared::kRows || current_context()->explicit_redistribution) return false;
  const Arguments args(d.op.schema(), {d.args.data(), d.args.size()});
  if (kind == OfShared::kMean) return run_mean(args, stack);
  return kind == OfShared::kNorm ? run_norm(args, stack) : run_norms(args, stack);
}

// @pre the context is in use, and the arguments, which `call` was parsed from, are the last of the stack
void run_by_rule(const c10::OperatorHandle& op, const Resolved& resolved, ParsedCall& call, Stack& stack) {
  const size_t n = op.schema().arguments().size();
  c10::SmallVector<c10::IValue, 8> args(std::make_move_iterator(stack.end() - static_cast<std::ptrdiff_t>(n)),
                                        std::make_move_iterator(stack.end()));
  torch::jit::drop(stack, n);
  ++call.comm->context->counters.ops;
  if (auto* given = call.comm->context->given)
    for (size_t i = 0; i < call.tensors.size(); ++i)
      given->push_back({call.tensors[i], call.operands.mutated[i]});
  const Asking asks(op.operator_name().name.c_str());
  // An out variant runs as the op that gives what it writes, which comes here by itself.
  auto* inputs = call.comm->context->op_inputs;
  if (inputs != nullptr && resolved.variant != Variant::kOut)
    if (const auto moved = inputs->moved(op, call); !moved.empty()) {
      const auto given = with_tensors(resolved, args, [&](size_t i) { return moved[i]; });
      args.assign(given.begin(), given.end());
      call = parse(op, resolved, args);
    }
  if (reads_zeros(resolved, call)) {
    if (auto given = of_zeros(resolved, call, args)) return torch::jit::push(stack, *std::move(given));
    const auto spread = with_zeros_spread(resolved, args, call);
    args.assign(spread.begin(), spread.end());
    call = parse(op, resolved, args);
  }
  Dispatched d{op, resolved, args, call};
  check_writes(d);
  if (resolved.variant == Variant::kOut) return run_out(d, stack);
  if (run_shared(d, stack)) return;
  find_decision(d);
  place_inputs(d);
  auto entry = current_timeline() != nullptr ? std::optional(begin_entry(d)) : std::nullopt;
  if (resolved.entry->kind == OpKind::kScalar) {
    if (entry.has_value()) current_timeline()->push_back(std::move(*entry));
    return run_scalar(d, stack);
  }
  const auto outputs = run(d, stack);
  if (entry.has_value()) end_entry(d, std::move(*entry), outputs);
}

void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const auto& resolved = resolve(op);
  if (resolved.composite) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
    return;
  }
  const size_t n = op.schema().arguments().size();
  auto call = parse(op, resolved, at::ArrayRef<c10::IValue>(stack->data() + stack->size() - n, n));
  if (call.comm == nullptr)
    return PlainOps::tell(op, *stack, [&] { run_without_dtensors(op, call, *stack); });
  if (const auto& its = call.comm->context; its != current_context()) {
    const ContextScope scope(its);
    return dispatch(op, keys, stack);
  }
  const ContextUse use(*call.comm->context);
  if (at::GradMode::is_enabled()) keep_leaf_gradients(call.tensors);
  // An out variant needs no rule: what it runs has one, or is composed of what has.
  if (resolved.entry != nullptr || resolved.functional.has_value())
    return run_by_rule(op, resolved, call, *stack);
  const auto whole = without_rule(op, resolved, call);
  run_by_rule(op, whole, call, *stack);
}

}  // namespace

void register_dispatch() {
  static torch::Library fake(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
  fake.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>());
}

}  // namespace lockstep
