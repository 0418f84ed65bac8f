// SPDX-License-Identifier: Apache-2.0
// What an optimizer makes of parameters and their gradients, by torch::optim; and clipping by the norm.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::oracle {

struct UpdateRule {
  bool adamw = true;  // else SGD
  double lr = 0, weight_decay = 0;
  double beta1 = 0, beta2 = 0, eps = 0;  // of AdamW
  double momentum = 0, dampening = 0;    // of SGD
  bool nesterov = false;
};

class ReferenceOptimizer {
 public:
  ReferenceOptimizer(std::vector<at::Tensor> parameters, const UpdateRule& rule);
  ~ReferenceOptimizer();
  ReferenceOptimizer(const ReferenceOptimizer&) = delete;
  ReferenceOptimizer& operator=(const ReferenceOptimizer&) = delete;

  // Writes to the parameters. It counts its own steps.
  void step();

 private:
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

// Pascanu et al. 2013: scales the gradients where the norm of all their elements is above `most`; returns the
// norm before.
at::Tensor clip_by_norm(const std::vector<at::Tensor>& parameters, double most);

}  // namespace lockstep::oracle
