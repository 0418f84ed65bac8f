// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/plain_guard.h"
#include "engine/tensor/random_ops.h"
#include "engine/tensor/run.h"

namespace lockstep {

std::vector<at::Tensor> run_random(const Dispatched& d, torch::jit::Stack& stack) {
  const PlainGuard guard;
  auto results = random_op(*d.resolved.entry, {d.op, d.decision->call, d.args, d.call.operands.specs,
                                               d.placed, d.decision->outputs, *d.call.comm});
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

}  // namespace lockstep
