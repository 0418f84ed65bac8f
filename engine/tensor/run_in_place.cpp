// SPDX-License-Identifier: Apache-2.0
#include <torch/csrc/autograd/variable.h>

#include "engine/tensor/run.h"

namespace lockstep {

std::vector<at::Tensor> run_in_place(const Dispatched& d, torch::jit::Stack& stack) {
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

}  // namespace lockstep
