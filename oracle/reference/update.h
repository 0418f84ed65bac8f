// SPDX-License-Identifier: Apache-2.0
// What an optimizer makes of parameters and their gradients, by torch::optim, or where that has none by its
// paper; and clipping by the norm.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <memory>
#include <vector>

namespace torch::optim {
class Optimizer;
}

namespace lockstep::oracle {

enum class Update { kAdamW, kSgd, kAdamW8bit, kMuon };

struct UpdateRule {
  Update update = Update::kAdamW;
  double lr = 0, weight_decay = 0;
  double beta1 = 0, beta2 = 0, eps = 0;  // of AdamW, 8 bits or not; of Muon eps
  double momentum = 0, dampening = 0;    // of SGD; of Muon momentum
  bool nesterov = false;                 // of SGD and Muon
  int64_t tile = 32, least = 4096;  // of 8 bits: rows and columns that share a scale; elements that have any
  std::array<double, 3> coefficients = {};  // of Muon
  int64_t iterations = 0;
  bool by_rms = false, in_float = false;
};

class ReferenceOptimizer {
 public:
  ReferenceOptimizer(std::vector<at::Tensor> parameters, const UpdateRule& rule);
  ~ReferenceOptimizer();
  ReferenceOptimizer(const ReferenceOptimizer&) = delete;
  ReferenceOptimizer& operator=(const ReferenceOptimizer&) = delete;

  // Writes to the parameters. It counts its own steps.
  void step();
  // What it remembers of a parameter, undefined before its first step: of 8 bits the codes and scales of the
  // first moment, then of the second, or undefined codes and a moment; of Muon its momentum. @pre one of
  // these two
  std::vector<at::Tensor> memory(size_t parameter) const;

 private:
  void quantize();
  void step_muon();

  UpdateRule rule_;
  std::vector<at::Tensor> parameters_;
  std::vector<std::vector<at::Tensor>> memory_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

// Pascanu et al. 2013: scales the gradients where the norm of all their elements is above `most`; returns the
// norm before.
at::Tensor clip_by_norm(const std::vector<at::Tensor>& parameters, double most);

}  // namespace lockstep::oracle
