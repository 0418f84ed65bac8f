// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/distribute.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

at::Tensor distributed_parameter(const at::Tensor& value, const MeshInWorld& mesh,
                                 const Placements& placements) {
  const auto shards = value.is_meta()
                          ? lockstep::empty(value.sizes().vec(), mesh, placements, value.scalar_type())
                          : distribute_tensor(value.detach(), mesh, placements);
  auto placed = lockstep::parameter(shards);
  return placed.set_requires_grad(value.requires_grad());
}

// What the first pattern that takes one of the paths says. Marks the patterns that are used.
// @param paths of one tensor
Placements placements_of(const std::vector<std::string>& paths, const MeshInWorld& mesh,
                         const std::vector<ParameterPlacement>& table, std::vector<bool>& used) {
  const ParameterPlacement* said = nullptr;
  for (const auto& path : paths) {
    const auto row = std::find_if(table.begin(), table.end(),
                                  [&](const auto& placement) { return matches(placement.pattern, path); });
    if (row == table.end()) continue;
    used[as_size(row - table.begin())] = true;
    if (said == nullptr) said = &*row;
    LOCKSTEP_CHECK(said->placements == row->placements, "[distribute_module] '", path, "' and '",
                   paths.front(), "' are one tensor, and the patterns '", said->pattern, "' and '",
                   row->pattern, "' say ", to_string(said->placements), " and ", to_string(row->placements),
                   "; give both the same");
  }
  return said ? said->placements : Placements(as_size(mesh.mesh.ndim()), Replicate{});
}

}  // namespace

bool matches(std::string_view pattern, std::string_view path) {
  const auto star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == path;
  if (path.substr(0, star) != pattern.substr(0, star)) return false;
  for (size_t skip = star; skip <= path.size(); ++skip)
    if (matches(pattern.substr(star + 1), path.substr(skip))) return true;
  return false;
}

// What is computed anew is the same on every rank, and need not come from one.
at::Tensor distributed_buffer(Module& module, std::string_view path, const MeshInWorld& mesh,
                              const Placements& placements) {
  const auto& value = module.buffer(path);
  return value.is_meta() ? distribute_tensor(module.make_buffer(path, mesh.mesh.device_type()), mesh,
                                             placements, {}, std::nullopt)
                         : distribute_tensor(value, mesh, placements);
}

void distribute_each(Module& module, const MeshInWorld& mesh, const PlacementsOf& placements_of) {
  // All are made before the first is replaced: what throws leaves the module as it was.
  auto parameters = module.parameters_with_paths(), buffers = module.buffers_with_paths();
  for (auto& [value, paths] : parameters)
    if (const auto to = placements_of(paths, true)) value = distributed_parameter(value, mesh, *to);
  for (auto& [value, paths] : buffers)
    if (const auto to = placements_of(paths, false))
      value = distributed_buffer(module, paths.front(), mesh, *to);
  for (const auto& [value, paths] : parameters)
    for (const auto& path : paths) module.set_parameter(path, value);
  for (const auto& [value, paths] : buffers)
    for (const auto& path : paths) module.set_buffer(path, value);
}

void distribute_module(Module& module, const MeshInWorld& mesh,
                       const std::vector<ParameterPlacement>& table) {
  std::vector<bool> used(table.size(), false);
  for (const auto& tensors : {module.parameters_with_paths(), module.buffers_with_paths()})
    for (const auto& [value, paths] : tensors) placements_of(paths, mesh, table, used);
  for (size_t i = 0; i < table.size(); ++i)
    LOCKSTEP_CHECK(
        used[i], "[distribute_module] no parameter or buffer matches '", table[i].pattern,
        "', or an earlier pattern takes all that do; the paths are those of named_parameters() and "
        "named_buffers()");
  distribute_each(module, mesh,
                  [&](const auto& paths, bool) { return placements_of(paths, mesh, table, used); });
}

void distribute_module(Module& module, const MeshInWorld& mesh, const std::vector<ParameterPlacement>& table,
                       const ModuleEnds& ends) {
  distribute_module(module, mesh, table);
  if (ends.input_fn)
    module.register_forward_pre_hook(
        [mesh, fn = ends.input_fn](Module& of, Tensors& inputs) { fn(of, inputs, mesh); }, "input_fn");
  if (ends.output_fn)
    module.register_forward_hook(
        [mesh, fn = ends.output_fn](Module& of, const Tensors&, at::Tensor& output) {
          output = fn(of, std::move(output), mesh);
        },
        "output_fn");
}

}  // namespace lockstep::nn
