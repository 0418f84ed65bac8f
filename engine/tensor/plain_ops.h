// SPDX-License-Identifier: Apache-2.0
// Ops on plain tensors as they would reach the engine, were their tensors DTensors: below autograd, and what
// they are made of. For whoever compares the two.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/FunctionRef.h>

#include <functional>

namespace lockstep {

// While alive, each plain op of this thread, forward and backward, is told before it runs, with its
// arguments, and after, with its results. Not told: what the engine runs on the locals of DTensors.
class PlainOps {
 public:
  using Told = std::function<void(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> values)>;
  PlainOps(Told begins, Told ends);
  ~PlainOps();
  PlainOps(const PlainOps&) = delete;
  PlainOps& operator=(const PlainOps&) = delete;

  // Runs the op, whose arguments are the last of the stack, and tells of it, where one is alive.
  static void tell(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run);

 private:
  Told begins_, ends_;
  PlainOps* outer_;
  c10::impl::IncludeDispatchKeyGuard include_;
};

}  // namespace lockstep
