// SPDX-License-Identifier: Apache-2.0
// The optimizers of engine/optim behind one face, and what they remember as a value.
#pragma once
#include <variant>
#include <vector>

#include "engine/optim/optimizer.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// One tensor for each parameter in each of the moments: of AdamW exp_avg and exp_avg_sq, of SGD the momentum.
// Undefined, and 0 steps, until the first step of the parameter; SGD counts none.
struct OptimizerState {
  std::vector<optim::Tensors> moments;
  std::vector<int64_t> steps;
};

class Optimizer {
 public:
  Optimizer(const optim::Tensors& parameters, const TrainOptions& options);

  void step();
  OptimizerState state() const;
  // @pre placed as the parameters are
  void load_state(OptimizerState state);

 private:
  std::variant<optim::AdamW, optim::Sgd> optimizer_;
};

}  // namespace lockstep::suites
