// SPDX-License-Identifier: Apache-2.0
#include "suites/train/optimizer.h"

namespace lockstep::suites {
namespace {

std::variant<optim::AdamW, optim::Sgd> make(const optim::Tensors& parameters, const TrainOptions& o) {
  if (is_sgd(o.optimizer))
    return optim::Sgd(
        parameters,
        {.lr = o.lr, .momentum = 0.9, .weight_decay = o.weight_decay, .fused = is_fused(o.optimizer)});
  return optim::AdamW(
      parameters,
      {.lr = o.lr, .beta2 = 0.95, .weight_decay = o.weight_decay, .fused = is_fused(o.optimizer)});
}

}  // namespace

Optimizer::Optimizer(const optim::Tensors& parameters, const TrainOptions& options)
    : optimizer_(make(parameters, options)) {}

void Optimizer::step() {
  std::visit([](auto& one) { one.step(); }, optimizer_);
}

OptimizerState Optimizer::state() const {
  if (const auto* sgd = std::get_if<optim::Sgd>(&optimizer_)) return {{sgd->momentum()}, {}};
  const auto& state = std::get<optim::AdamW>(optimizer_).state();
  return {{state.exp_avg, state.exp_avg_sq}, state.steps};
}

void Optimizer::load_state(OptimizerState state) {
  if (auto* sgd = std::get_if<optim::Sgd>(&optimizer_)) return sgd->load_momentum(state.moments.at(0));
  std::get<optim::AdamW>(optimizer_)
      .load_state({state.moments.at(0), state.moments.at(1), std::move(state.steps)});
}

}  // namespace lockstep::suites
