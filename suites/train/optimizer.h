// SPDX-License-Identifier: Apache-2.0
// The optimizers of engine/optim behind one face, and what they remember as a value.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "engine/nn/module.h"
#include "engine/optim/adamw8bit.h"
#include "engine/optim/muon.h"
#include "engine/optim/optimizer.h"
#include "suites/train/train.h"

namespace lockstep::suites {

// One tensor for each parameter in each of the moments: of AdamW exp_avg and exp_avg_sq, of SGD the momentum,
// of AdamW in 8 bits codes and scales of one and codes and scales of the other, of Muon its momentum and
// AdamW's two, each of the parameters that it steps. Undefined, and 0 steps, until the first step of the
// parameter; SGD and Muon count none.
struct OptimizerState {
  std::vector<optim::Tensors> moments;
  std::vector<int64_t> steps;
};

// Muon of some parameters and AdamW of the others.
struct MuonAndAdamW {
  optim::Muon muon;
  optim::AdamW adamw;
  std::vector<bool> by_muon;

  void step() { muon.step(), adamw.step(); }
};

class Optimizer {
 public:
  // @param by_muon which parameters Muon steps, where it is chosen: matrices
  Optimizer(const optim::Tensors& parameters, const TrainOptions& options, std::vector<bool> by_muon = {});

  void step();
  OptimizerState state() const;
  // @pre placed as the parameters are; scales anyhow
  void load_state(OptimizerState state);
  // Of the moments, as torch's optimizers name them.
  std::vector<std::string> moment_names() const;

 private:
  std::variant<optim::AdamW, optim::Sgd, optim::AdamW8bit, MuonAndAdamW> optimizer_;
};

// Which of a model's parameters Muon steps: the matrices of its layers, which are at this path.
std::vector<bool> by_muon(const nn::Named<at::Tensor>& parameters, std::string_view layers);
std::vector<bool> matrices(const optim::Tensors& parameters);

}  // namespace lockstep::suites
