// SPDX-License-Identifier: Apache-2.0
// When one device adds up what passes leave in the gradients of parameters that are elsewhere while their
// module runs: where the engine does.
#pragma once
#include "engine/nn/module.h"
#include "suites/plans/parallelizing.h"

namespace lockstep::suites {

// The module at the path, and the parameters, from the model, that a row of this one says to be elsewhere
// while it runs.
struct Shown {
  std::string path;
  std::vector<std::string> parameters;
};
// By module, in the order of calls.
std::vector<Shown> shown_of(const Parallelizing& p, const ParallelPlan& plan);

// Tensor by tensor: behind the pass through the module, where they come back to the parameter's place.
// @pre `p` and `model` outlive the last call
void come_back_alike(const Parallelizing& p, const ParallelPlan& plan, nn::Module& model);

// In buffers: at the end of the pass, the outermost first, of others the one that was called last.
class AddedAtTheEnd {
 public:
  AddedAtTheEnd(const Parallelizing& p, const nn::Module& model);
  // After a pass.
  void take();
  // After the last one of a step.
  void hand_in();

 private:
  struct Sum {
    at::Tensor parameter, sum;
  };
  std::vector<Sum> all_;
};

}  // namespace lockstep::suites
