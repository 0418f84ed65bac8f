// SPDX-License-Identifier: Apache-2.0
#include "suites/plans/places.h"

#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep::suites {
using enum PlanPhase;

bool is_around(const std::string& outer, const std::string& inner) {
  return outer.empty() || inner == outer || inner.starts_with(outer + ".");
}

bool annotates(const PlanRow& row, const std::string& path) {
  const auto dot = path.rfind('.');
  const auto name = path.substr(dot == std::string::npos ? 0 : dot + 1) + ".grad";
  auto module = dot == std::string::npos ? "" : path.substr(0, dot);
  if (row.tensor != "*.grad") return row.tensor == name && speaks_of(row, module);
  while (!speaks_of(row, module)) {
    if (module.empty()) return false;
    const auto last = module.rfind('.');
    module = last == std::string::npos ? "" : module.substr(0, last);
  }
  return true;
}

std::vector<std::optional<Said>> said(const Parallelizing& p, const ParallelPlan& plan, PlanPhase phase,
                                      const std::string& module, const std::string& name) {
  std::vector<std::optional<Said>> places(as_size(p.mesh.ndim()));
  std::vector<int64_t> narrowness(places.size(), -1);
  for (const auto& row : plan.rows()) {
    if (row.phase != phase) continue;
    for (const auto& [path, parameters, inputs] : modules_of(p)) {
      const bool is_named = row.tensor == name && path == module;
      if (!speaks_of(row, path) || !(is_named || (row.tensor == "*" && is_around(path, module)))) continue;
      const int64_t narrow = is_named ? 1000 : std::ssize(path);
      for (size_t i = 0; i < row.mesh_dims.size(); ++i) {
        const auto d = as_size(p.mesh.dim_index(row.mesh_dims[i]));
        if (narrow <= narrowness[d]) continue;
        narrowness[d] = narrow;
        places[d] = {row.to[i], path};
      }
    }
  }
  return places;
}

Places::Places(const Parallelizing& p, nn::Module& model) : p_(p), model_(model) {
  for (const auto& module : modules_of(p)) watch(module);
}

void Places::watch(const PlannedModule& module) {
  auto& watched = model_.child(module.path);
  watched.register_forward_pre_hook([this, module](nn::Module&, nn::Tensors& inputs) {
    expect_parameters(module, true);
    for (const auto& row : p_.plan.rows())
      if (row.phase == kForwardPre && row.op.empty() && speaks_of(row, module.path))
        expect(module.path, inputs.at(as_size(row.index)), row);
  });
  for (const auto& row : p_.plan.rows()) {
    if (!speaks_of(row, module.path)) continue;
    if (row.phase == kForwardPost)
      watched.register_forward_hook([this, module, row](nn::Module&, const nn::Tensors&, at::Tensor& output) {
        expect(module.path, output, row);
      });
    if (row.phase == kBackwardPre)
      watched.register_full_backward_pre_hook(
          [this, module, row](nn::Module&, at::Tensor& gradient) { expect(module.path, gradient, row); });
    if (row.phase == kBackwardPost && !is_annotation(row))
      watched.register_full_backward_hook(
          [this, module, row](nn::Module&, nn::Tensors& gradients, const at::Tensor&) {
            const auto& gradient = gradients.at(as_size(row.index));
            if (gradient.defined()) expect(module.path, gradient, row);
          });
  }
}

void Places::expect(const std::string& what, const at::Tensor& tensor, const PlanRow& row) {
  for (size_t i = 0; i < row.mesh_dims.size() && unlike_.empty(); ++i)
    if (const auto d = p_.mesh.dim_index(row.mesh_dims[i]); placements(tensor)[as_size(d)] != row.to[i])
      unlike_ = concat("a tensor of '", what, "' is ", spec(tensor), ", and its row is ", row);
}

// What lies in buffers is wherever these cut it, and whole while it runs.
void Places::expect_parameters(const PlannedModule& module, bool runs) {
  if (p_.as == kInBuffers) return;
  for (const auto& [name, dims] : module.parameters) {
    const auto path = module.path + "." + name;
    const auto first = said(p_, p_.plan, kInit, module.path, name);
    const auto run = said(p_, p_.plan, kRun, module.path, name);
    Placements places(first.size(), Replicate{});
    for (size_t d = 0; d < places.size(); ++d) {
      if (first[d]) places[d] = first[d]->place;
      if (runs && run[d]) places[d] = run[d]->place;
    }
    if (const auto& is = placements(model_.parameter(path)); is != places && unlike_.empty())
      unlike_ = concat("the parameter '", path, "' is ", is, runs ? " while it runs" : " between calls",
                       ", and ", places, " by its rows");
  }
}

std::string Places::unlike() const {
  auto last = *this;
  for (const auto& module : modules_of(p_)) last.expect_parameters(module, false);
  return last.unlike_;
}

}  // namespace lockstep::suites
