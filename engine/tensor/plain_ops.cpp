// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/plain_ops.h"

#include <utility>

#include "engine/tensor/plain_guard.h"

namespace lockstep {

// As the key that makes plain ops pass by the engine is: the thread's.
static thread_local PlainOps* current = nullptr;

PlainOps::PlainOps(Told begins, Told ends)
    : begins_(std::move(begins)),
      ends_(std::move(ends)),
      outer_(std::exchange(current, this)),
      include_(c10::DispatchKey::Fake) {}

PlainOps::~PlainOps() {
  current = outer_;
}

void PlainOps::tell(const c10::OperatorHandle& op, torch::jit::Stack& stack, c10::function_ref<void()> run) {
  const auto* told = current;
  if (told == nullptr) return run();
  const auto last = [&](size_t n) {
    return at::ArrayRef<c10::IValue>(stack.data() + stack.size() - n, n);
  };
  {
    const PlainGuard unseen;
    told->begins_(op, last(op.schema().arguments().size()));
  }
  run();
  const PlainGuard unseen;
  told->ends_(op, last(op.schema().returns().size()));
}

}  // namespace lockstep
