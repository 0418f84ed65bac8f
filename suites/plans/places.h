// SPDX-License-Identifier: Apache-2.0
// Whether tensors are where the rows of a plan say: read off the rows here, and observed by hooks of a model
// that are called behind the plan's own.
#pragma once
#include <optional>

#include "engine/nn/module.h"
#include "suites/plans/parallelizing.h"

namespace lockstep::suites {

// What the narrowest row of a phase says of a module's own parameter along a mesh dimension, and of which
// module that row is.
struct Said {
  Placement place;
  std::string by;
};
// Along each mesh dimension; empty where none does.
std::vector<std::optional<Said>> said(const Parallelizing& p, const ParallelPlan& plan, PlanPhase phase,
                                      const std::string& module, const std::string& name);

// Whether the inner path is that of the module at the outer one, or of one within it.
bool is_around(const std::string& outer, const std::string& inner);

// Whether the row annotates the gradient of the parameter at this path: its own, or "*" of a module around
// it.
bool annotates(const PlanRow& row, const std::string& path);

class Places {
 public:
  // @pre both outlive it, and it outlives the last call of the model
  Places(const Parallelizing& p, nn::Module& model);
  // What was elsewhere first; empty: nothing, and all parameters are where they were from the start.
  std::string unlike() const;

 private:
  void expect(const std::string& what, const at::Tensor& tensor, const PlanRow& row);
  void expect_parameters(const PlannedModule& module, bool runs);
  void watch(const PlannedModule& module);

  const Parallelizing& p_;
  nn::Module& model_;
  std::string unlike_;
};

}  // namespace lockstep::suites
