// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/local_map.h"

#include <utility>

#include "engine/values/error.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

MeshInWorld mesh_of(const std::vector<at::Tensor>& inputs) {
  std::optional<MeshInWorld> mesh;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_dtensor(inputs[i])) continue;
    if (!mesh) mesh = device_mesh(inputs[i]);
    LOCKSTEP_CHECK(mesh->mesh == spec(inputs[i]).mesh(), "[local_map] input ", i, " is on ",
                   to_string(spec(inputs[i]).mesh()), ", those before it on ", to_string(mesh->mesh),
                   "; redistribute it to their mesh first");
  }
  LOCKSTEP_CHECK(mesh, "[local_map] none of the ", inputs.size(),
                 " inputs is a DTensor; call the function itself, or distribute_tensor one of them");
  return *mesh;
}

at::Tensor placed(const at::Tensor& input, size_t i, const LocalMapInput& as, bool may_move) {
  if (!as.placements) return input;
  const Spec& now = spec(input);
  if (now == now.with_placements(*as.placements, as.order)) return input;
  LOCKSTEP_CHECK(may_move, "[local_map] input ", i, " is ", to_string(now), ", not placed as ",
                 to_string(*as.placements), "; redistribute it, or pass redistribute_inputs");
  return redistribute(input, *as.placements, as.order);
}

// Of each hosted rank, what it passes to the function.
std::vector<std::vector<at::Tensor>> arguments_of(const std::vector<at::Tensor>& inputs, size_t ranks,
                                                  const std::vector<LocalMapInput>& as, bool may_move) {
  LOCKSTEP_CHECK(as.empty() || as.size() == inputs.size(), "[local_map] is called with ", inputs.size(),
                 " inputs, and was made for ", as.size());
  std::vector<std::vector<at::Tensor>> arguments(ranks);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_dtensor(inputs[i])) {
      for (auto& mine : arguments) mine.push_back(inputs[i]);
      continue;
    }
    const LocalMapInput how = as.empty() ? LocalMapInput{} : as[i];
    const auto locals = to_local(placed(inputs[i], i, how, may_move), how.grad_placements);
    for (size_t r = 0; r < ranks; ++r) arguments[r].push_back(locals[r]);
  }
  return arguments;
}

}  // namespace

TensorFunction local_map(TensorFunction function, std::vector<LocalMapResult> results,
                         std::vector<LocalMapInput> inputs, bool redistribute_inputs) {
  return [function = std::move(function), results = std::move(results), inputs = std::move(inputs),
          redistribute_inputs](const std::vector<at::Tensor>& given) {
    const MeshInWorld mesh = mesh_of(given);
    const auto& ranks = mesh.comm->ranks;
    std::vector<PerRank<at::Tensor>> locals(results.size());
    const auto arguments = arguments_of(given, ranks.size(), inputs, redistribute_inputs);
    for (size_t r = 0; r < ranks.size(); ++r) {
      const auto mine = function(arguments[r]);
      LOCKSTEP_CHECK(mine.size() == results.size(), "[local_map] the function gave ", mine.size(),
                     " results on rank ", ranks[r], ", and ", results.size(), " are placed");
      for (size_t i = 0; i < mine.size(); ++i) locals[i].push_back(mine[i]);
    }
    std::vector<at::Tensor> made;
    for (size_t i = 0; i < results.size(); ++i)
      made.push_back(from_local(locals[i], mesh, results[i].placements, results[i].shape, results[i].stride,
                                true, results[i].order));
    return made;
  };
}

}  // namespace lockstep
