// SPDX-License-Identifier: Apache-2.0
#include "suites/fsdp/step_groups.h"

#include "suites/train/llama.h"

namespace lockstep::suites {

// The last group of a table is what is before and after the layers.
std::vector<fsdp::StepGroup> step_groups(const ModelTable& model, const Coarse& coarse) {
  std::vector<fsdp::StepGroup> groups{{blocks_of(model, model.groups.back(), coarse), 1, 1}};
  for (auto layer = model.groups.begin(); layer + 1 != model.groups.end(); ++layer)
    groups.push_back({blocks_of(model, *layer, coarse), layer->count});
  return groups;
}

std::vector<fsdp::StepGroup> step_groups(const ModelOptions& options) {
  std::vector<fsdp::StepGroup> groups{{{}, 1, 1}, {{}, options.layers}};
  for (const auto& [path, parameter] : Llama(options).named_parameters()) {
    if (!path.starts_with("layers."))
      groups[0].tensors.push_back({parameter.numel()});
    else if (path.starts_with("layers.0."))
      groups[1].tensors.push_back({parameter.numel()});
  }
  return groups;
}

int64_t numel(const std::vector<fsdp::StepGroup>& groups) {
  int64_t all = 0;
  for (const auto& group : groups)
    for (const auto& tensor : group.tensors) all += group.count * tensor.elements;
  return all;
}

}  // namespace lockstep::suites
