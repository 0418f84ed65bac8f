// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/parallel.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

Placement resolve(const Placement& placement, const at::Tensor& tensor) {
  const auto* shard = std::get_if<Shard>(&placement);
  return shard != nullptr && shard->dim < 0 ? Shard{shard->dim + tensor.dim()} : placement;
}

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

at::Tensor place(const at::Tensor& tensor, size_t mesh_dim, const Placement& wanted, const char* what) {
  LOCKSTEP_CHECK(is_dtensor(tensor), "[nn] ", what, " of a parallel module is a plain tensor of shape ",
                 tensor.sizes(), "; pass distribute_tensor(…)");
  auto target = placements(tensor);
  target.at(mesh_dim) = resolve(wanted, tensor);
  return target == placements(tensor) ? tensor : redistribute(tensor, target);
}

std::string said(const char* what, size_t i, const Placement& wanted, size_t mesh_dim) {
  return concat(what, i, " -> ", wanted, " along mesh dimension ", mesh_dim);
}

void add_hooks(Module& module, size_t mesh_dim, const ParallelStyle& style) {
  std::string inputs_said;
  for (size_t i = 0; i < style.inputs.size(); ++i)
    if (style.inputs[i])
      inputs_said += (inputs_said.empty() ? "" : ", ") + said("input ", i, *style.inputs[i], mesh_dim);
  if (!style.inputs.empty())
    module.register_forward_pre_hook(
        [mesh_dim, wanted = style.inputs](Module&, Tensors& inputs) {
          for (size_t i = 0; i < std::min(wanted.size(), inputs.size()); ++i)
            if (wanted[i]) inputs[i] = place(inputs[i], mesh_dim, *wanted[i], "input");
        },
        inputs_said);
  if (style.output)
    module.register_forward_hook(
        [mesh_dim, wanted = *style.output](Module&, const Tensors&, at::Tensor& output) {
          output = place(output, mesh_dim, wanted, "output");
        },
        said("output ", 0, *style.output, mesh_dim));
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

ParallelStyle colwise_parallel(Placement input, std::optional<Placement> output, bool bias) {
  ParallelStyle style{{{"weight", Shard{0}}}, {input}, output};
  if (bias) style.tensors.emplace_back("bias", Shard{0});
  return style;
}

ParallelStyle rowwise_parallel(Placement output, Placement input) {
  return {{{"weight", Shard{1}}}, {input}, output};
}

ParallelStyle vocabulary_parallel(Placement output) {
  return {{{"weight", Shard{0}}}, {Replicate{}}, output};
}

ParallelStyle sequence_parallel(int64_t dim) {
  return {{}, {Shard{dim}}, std::nullopt};
}

ParallelStyle expert_parallel() {
  return {{{"gate_proj", Shard{0}}, {"up_proj", Shard{0}}, {"down_proj", Shard{0}}}, {}, std::nullopt};
}

ParallelStyle placed(std::vector<std::optional<Placement>> inputs, std::optional<Placement> output) {
  return {{}, std::move(inputs), output};
}

// Of a module that stands in several places one row of the plan takes all that it names.
static size_t first_match(const std::vector<std::string>& paths, const std::vector<ParallelPlan>& plan) {
  size_t said = plan.size();
  for (const auto& path : paths) {
    const auto row = std::find_if(plan.begin(), plan.end(),
                                  [&](const auto& planned) { return matches(planned.pattern, path); });
    if (row == plan.end()) continue;
    const auto i = as_size(row - plan.begin());
    LOCKSTEP_CHECK(said == plan.size() || said == i, "[parallelize_module] '", path, "' and '", paths.front(),
                   "' are one module, and the patterns '", plan[said].pattern, "' and '", row->pattern,
                   "' both name it; name it by one");
    said = i;
  }
  return said;
}

void parallelize_module(Module& module, const MeshInWorld& mesh, std::string_view mesh_dim,
                        const std::vector<ParallelPlan>& plan) {
  const auto dim = static_cast<size_t>(mesh.mesh.dim_index(mesh_dim));
  std::vector<ParameterPlacement> table;
  std::vector<bool> used(plan.size(), false);
  std::vector<std::pair<Module*, size_t>> planned;
  for (const auto& [below, paths] : module.modules_with_paths()) {
    const auto i = first_match(paths, plan);
    if (i == plan.size()) continue;
    used[i] = true;
    planned.emplace_back(below, i);
    for (const auto& [name, placement] : plan[i].style.tensors) {
      Placements all(static_cast<size_t>(mesh.mesh.ndim()), Replicate{});
      all[dim] = placement;
      for (const auto& path : paths) table.push_back({path.empty() ? name : concat(path, ".", name), all});
    }
  }
  for (size_t i = 0; i < plan.size(); ++i)
    LOCKSTEP_CHECK(used[i], "[parallelize_module] no module matches '", plan[i].pattern,
                   "', or an earlier pattern takes all that do; the paths are those of named_modules()");
  distribute_module(module, mesh, table);
  for (const auto& [below, i] : planned) add_hooks(*below, dim, plan[i].style);
}

}  // namespace lockstep::nn
