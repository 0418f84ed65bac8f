// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/claims.h"

#include <algorithm>
#include <regex>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

bool is_within(std::string_view path, std::string_view module) {
  return module.empty()
             ? !path.empty()
             : path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.';
}

Located locate(const PlanRow& row, const DeviceMesh& mesh) {
  Located located{row, {}};
  for (const auto& dim : row.mesh_dims) {
    const auto found = std::find(mesh.names().begin(), mesh.names().end(), dim);
    LOCKSTEP_CHECK(found != mesh.names().end(), "[plan] ", row, ": the mesh ", mesh, " has no dimension '",
                   dim, "'", did_you_mean(dim, mesh.names()));
    located.dims.push_back(as_size(found - mesh.names().begin()));
  }
  return located;
}

std::vector<std::string> own(const nn::Named<at::Tensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [path, value] : tensors)
    if (path.find('.') == std::string::npos) names.push_back(path);
  return names;
}

void check_named(const Target& target, const PlanRow& row) {
  const bool is_gradient = is_annotation(row);
  if ((!is_of_parameters(row.phase) && !is_gradient) || is_factory(row)) return;
  const auto named =
      row.tensor.substr(0, row.tensor.size() - (is_gradient ? std::string_view(".grad").size() : 0));
  if (named == "*") return;
  auto names = own(target.module->named_parameters());
  if (row.phase == PlanPhase::kInit)
    for (auto& buffer : own(target.module->named_buffers())) names.push_back(std::move(buffer));
  LOCKSTEP_CHECK(std::find(names.begin(), names.end(), named) != names.end(), "[plan] ", row, ": ",
                 target.name(), " has no ",
                 row.phase == PlanPhase::kInit ? "parameter or buffer" : "parameter", " '", named, "'",
                 did_you_mean(named, names));
}

// Rows of one op speak of one call, unless each says which.
bool are_of_one_op(const PlanRow& a, const PlanRow& b) {
  if (base_op(a) != base_op(b)) return false;
  return a.op == b.op || a.op == base_op(a) || b.op == base_op(b);
}

bool overlap(const Located& a, const Located& b) {
  if (!are_of_one_op(a.row, b.row)) return false;
  if (a.row.phase != b.row.phase || a.row.tensor != b.row.tensor || a.row.index != b.row.index) return false;
  return std::find_first_of(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end()) != a.dims.end();
}

void check_once(const Target& target) {
  for (size_t i = 0; i < target.rows.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      LOCKSTEP_CHECK(!overlap(target.rows[i], target.rows[k]), "[plan] two rows say where ",
                     target.rows[i].row.tensor, " of ", target.name(),
                     " is to be along one mesh dimension: ", target.rows[k].row, " and ", target.rows[i].row,
                     "; leave one of them out");
}

std::vector<std::string> all_paths(const std::vector<Target>& targets) {
  std::vector<std::string> all;
  for (const auto& target : targets)
    if (!target.paths.front().empty()) all.insert(all.end(), target.paths.begin(), target.paths.end());
  return all;
}

// Adds the row to the modules that it matches.
void add_row(std::vector<Target>& targets, const DeviceMesh& mesh, const PlanRow& row) {
  const std::regex pattern(row.module);
  const auto located = locate(row, mesh);
  bool any = false, has_parameters = false;
  for (auto& target : targets) {
    const bool is_meant = std::any_of(target.paths.begin(), target.paths.end(),
                                      [&](const auto& path) { return std::regex_match(path, pattern); });
    if (!is_meant) continue;
    check_named(target, row);
    target.rows.push_back(located);
    any = true;
    has_parameters |= !target.module->parameters().empty();
  }
  LOCKSTEP_CHECK(any, "[plan] ", row, ": no module's path matches '", row.module, "'",
                 did_you_mean(row.module, all_paths(targets)));
  LOCKSTEP_CHECK(has_parameters || (row.tensor != "*" && row.tensor != "*.grad"), "[plan] ", row,
                 ": there is no parameter in the modules that it matches; name buffers by their names");
}

size_t depth(const Target& target) {
  size_t most = 0;
  for (const auto& path : target.paths)
    if (!path.empty()) most = std::max(most, split(path, '.').size());
  return most;
}

bool is_around(const Target& outer, const Target& inner) {
  return &outer != &inner && !paths_within(outer, inner.paths).empty();
}

}  // namespace

std::vector<Target> find_targets(nn::Module& model, const DeviceMesh& mesh, const ParallelPlan& plan) {
  std::vector<Target> targets;
  for (auto& [module, paths] : model.modules_with_paths()) targets.push_back({module, paths, {}});
  for (const auto& row : plan.rows()) add_row(targets, mesh, row);
  for (const auto& target : targets) check_once(target);
  return targets;
}

// Each path of a module leads to a longer one of what is within it.
std::vector<const Target*> inner_first(const std::vector<Target>& targets) {
  std::vector<const Target*> all;
  for (const auto& target : targets) all.push_back(&target);
  std::stable_sort(all.begin(), all.end(), [](auto* a, auto* b) { return depth(*a) > depth(*b); });
  return all;
}

std::vector<std::string> paths_within(const Target& target, const std::vector<std::string>& paths) {
  std::vector<std::string> within;
  for (const auto& place : target.paths)
    for (const auto& path : paths)
      if (is_within(path, place)) within.push_back(place.empty() ? path : path.substr(place.size() + 1));
  return within;
}

Claims::Claims(const std::vector<Target>& targets, PlanPhase phase, const DeviceMesh& mesh)
    : phase_(phase), ndim_(as_size(mesh.ndim())) {
  for (const auto& target : targets)
    for (const auto& located : target.rows)
      if (located.row.phase == phase) claims_.push_back({&target, &located});
}

std::vector<std::optional<Claim>> Claims::of(const std::vector<std::string>& paths, bool is_parameter,
                                             std::string_view of_it) const {
  std::vector<std::vector<Claim>> named(ndim_), of_all(ndim_);
  for (const auto& claim : claims_) {
    std::string_view tensor = claim.located->row.tensor;
    if (!tensor.ends_with(of_it)) continue;
    tensor.remove_suffix(of_it.size());
    const auto within = paths_within(*claim.target, paths);
    const bool is_named = std::find(within.begin(), within.end(), tensor) != within.end();
    if (!is_named && (tensor != "*" || !is_parameter || within.empty())) continue;
    for (const auto d : claim.located->dims) (is_named ? named : of_all)[d].push_back(claim);
  }
  std::vector<std::optional<Claim>> by_dim(ndim_);
  for (size_t d = 0; d < ndim_; ++d)
    by_dim[d] = followed(named[d].empty() ? of_all[d] : named[d], paths.front());
  return by_dim;
}

std::optional<Claim> Claims::followed(const std::vector<Claim>& all, const std::string& path) const {
  std::optional<Claim> first;
  for (const auto& claim : all) {
    const bool gives_way = std::any_of(
        all.begin(), all.end(), [&](const auto& other) { return is_around(*claim.target, *other.target); });
    if (gives_way) continue;
    if (!first) first = claim;
    const auto &x = first->located->row, &y = claim.located->row;
    LOCKSTEP_CHECK(
        phase_ == PlanPhase::kRun
            ? first->target == claim.target
            : x.to == y.to && x.mesh_dims == y.mesh_dims && x.sums == y.sums && x.hops == y.hops,
        "[plan] several modules share '", path, "', and ", x, " of ", first->target->name(), " and ", y,
        " of ", claim.target->name(), " speak of it; ",
        phase_ == PlanPhase::kRun ? "write the row of a module that has them all" : "let them say the same");
  }
  return first;
}

Placement resolved(const Placement& placement, const at::Tensor& tensor, const PlanRow& row) {
  if (!is_shard(placement)) return placement;
  const auto said = shard_dim(placement), dim = said < 0 ? said + tensor.dim() : said;
  LOCKSTEP_CHECK(dim >= 0 && dim < tensor.dim(), "[plan] ", row, ": ", placement, " of a tensor of shape ",
                 tensor.sizes(), "; name a dimension that it has");
  return with_dim(placement, dim);
}

Placement said_along(const Located& located, size_t dim, const at::Tensor& tensor) {
  const auto at = std::find(located.dims.begin(), located.dims.end(), dim) - located.dims.begin();
  return resolved(located.row.to[as_size(at)], tensor, located.row);
}

}  // namespace lockstep
