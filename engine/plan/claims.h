// SPDX-License-Identifier: Apache-2.0
// Which modules and tensors the rows of a plan speak of, and which of several that speak of one is followed.
#pragma once
#include <optional>

#include "engine/nn/module.h"
#include "engine/plan/plan.h"
#include "engine/values/device_mesh.h"

namespace lockstep {

// "G", of a parameter in a buffer: wherever the planner cuts it (engine/fsdp/planner.h).
inline const Placement kPlanned = RaggedShard{};

// A row, and the mesh dimensions that it names.
struct Located {
  PlanRow row;
  std::vector<size_t> dims;
};

// A module, and the rows that match one of its paths, in their order.
struct Target {
  nn::Module* module;
  std::vector<std::string> paths;
  std::vector<Located> rows;

  std::string name() const { return paths.front().empty() ? "(the model)" : paths.front(); }
};

// All modules. Throws Error for a row that matches none, or names a mesh dimension, a parameter or a buffer
// that is not there, for "*" of modules without parameters, and for two rows that say of one tensor of one
// module where it is to be along one mesh dimension in one phase.
std::vector<Target> find_targets(nn::Module& model, const DeviceMesh& mesh, const ParallelPlan& plan);
// Every one before those that it is within.
std::vector<const Target*> inner_first(const std::vector<Target>& targets);
// Of these paths those that lie within the module, from there.
std::vector<std::string> paths_within(const Target& target, const std::vector<std::string>& paths);

struct Claim {
  const Target* target;
  const Located* located;
};

// The rows of a phase that speak of parameters and buffers: one that names a tensor goes before "*", and "*"
// of a module before that of those around it.
class Claims {
 public:
  Claims(const std::vector<Target>& targets, PlanPhase phase, const DeviceMesh& mesh);

  // What is followed, by mesh dimension; none: no row speaks of it. Throws Error where modules of which
  // neither is within the other share the tensor, and their rows say of it what differs: of the phase init
  // where it is to be, of the phase run, which module's run is meant. @param paths of one tensor
  // @param of_it what the rows' tensors have behind its name
  std::vector<std::optional<Claim>> of(const std::vector<std::string>& paths, bool is_parameter,
                                       std::string_view of_it = "") const;

 private:
  std::optional<Claim> followed(const std::vector<Claim>& all, const std::string& path) const;

  PlanPhase phase_;
  size_t ndim_;
  std::vector<Claim> claims_;
};

// A placement of this tensor, with its dimension counted from the start. Throws Error that names the row
// where the tensor has no such dimension.
Placement resolved(const Placement& placement, const at::Tensor& tensor, const PlanRow& row);
// What the row says of a tensor along one of its mesh dimensions.
Placement said_along(const Located& located, size_t dim, const at::Tensor& tensor);

}  // namespace lockstep
