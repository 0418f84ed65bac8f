// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/run.h"
#include "engine/values/error.h"

namespace lockstep {

void run_scalar(const Dispatched& d, torch::jit::Stack& stack) {
  const PlainGuard guard;
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

}  // namespace lockstep
