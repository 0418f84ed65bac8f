// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/view_sizes.h"

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>
#include <utility>

#include "engine/layout/layout.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

// Above autograd, with kernels of nobody else.
constexpr auto kKey = c10::DispatchKey::DeferredInit;

// As the key is: the thread's.
thread_local ViewSizes* current = nullptr;

// They are the shape of the result, or of what a dimension becomes.
constexpr const char* kSized[] = {"view",     "reshape",   "expand",   "broadcast_to", "new_zeros",
                                  "new_ones", "new_empty", "new_full", "unflatten.int"};

size_t place_of_sizes(const c10::OperatorHandle& op) {
  for (const auto* name : {"size", "shape", "sizes"})
    if (const auto place = op.schema().argumentIndexWithName(name)) return as_size(*place);
  throw Broken(concat("[", op.operator_name(), "] is given no sizes"));
}

// Of the result's shape.
std::vector<int64_t> asked_for(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args,
                               std::vector<int64_t> shape, size_t count) {
  const auto dim = op.schema().argumentIndexWithName("dim");
  if (!dim) return shape;
  const auto ndim = args[0].toTensor().dim();
  const auto first = shape.begin() + (args[as_size(*dim)].toInt() + ndim) % ndim;
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

// One of DTensors: what its result is on each rank.
void see(const c10::OperatorHandle& op, const std::vector<c10::IValue>& args, std::vector<int64_t> asked,
         const at::Tensor& result, std::vector<SizedCall>& calls) {
  const auto* impl = dtensor_impl(result);
  if (impl == nullptr) return;
  SizedCall call{concat(op.operator_name()), std::move(asked), {}};
  for (const auto position : impl->comm()->positions)
    call.own.push_back(asked_for(op, args, local_shape(*impl->spec(), position), call.asked.size()));
  calls.push_back(std::move(call));
}

// @returns what this rank asks. Sizes that the program has read off a rank's tensors are its own already.
const std::vector<int64_t>& own_sizes(const c10::OperatorHandle& op, const std::vector<int64_t>& asked,
                                      ViewSizes::Turn& turn) {
  const auto name = concat(op.operator_name());
  LOCKSTEP_CHECK(turn.next < turn.calls->size(), "[static_eager] ", name, " of sizes ", asked,
                 " was not there when the step was recorded; record it again");
  const auto& seen = (*turn.calls)[turn.next++];
  const auto& own = seen.own[as_size(turn.rank)];
  bool fits = seen.op == name && seen.asked.size() == asked.size();
  for (size_t d = 0; fits && d < asked.size(); ++d) fits = asked[d] == seen.asked[d] || asked[d] == own[d];
  LOCKSTEP_CHECK(fits, "[static_eager] ", name, " of sizes ", asked, " was ", seen.op, " of ", seen.asked,
                 " when the step was recorded; record it again");
  return own;
}

// Not of the program: a kernel's, which asks by what it is given (native_layer_norm's views).
bool is_below_autograd() {
  return c10::impl::tls_is_dispatch_key_excluded(c10::DispatchKey::AutogradFunctionality);
}

void sized(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard once(kKey);
  const auto below = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  const size_t n = op.schema().arguments().size();
  auto* args = stack->data() + stack->size() - n;
  auto* turn =
      current == nullptr || current->turn.calls == nullptr || is_below_autograd() ? nullptr : &current->turn;
  const bool sees = turn != nullptr && turn->rank < 0;
  if (turn == nullptr || sees != (dtensor_impl(args[0].toTensor()) != nullptr))
    return op.redispatchBoxed(below, stack);
  auto& sizes = args[place_of_sizes(op)];
  if (!sees) {
    sizes = own_sizes(op, sizes.toIntVector(), *turn);
    return op.redispatchBoxed(below, stack);
  }
  const std::vector<c10::IValue> given(args, args + n);
  op.redispatchBoxed(below, stack);
  see(op, given, given[place_of_sizes(op)].toIntVector(), stack->back().toTensor(), *turn->calls);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, DeferredInit, library) {
  for (const auto* op : kSized) library.impl(op, torch::CppFunction::makeFromBoxedFunction<&sized>());
}

ViewSizes::ViewSizes() : outer_(std::exchange(current, this)), include_(kKey) {}

ViewSizes::~ViewSizes() {
  current = outer_;
}

}  // namespace lockstep
