// SPDX-License-Identifier: Apache-2.0
#include "suites/train/optimizer.h"

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

using optim::Tensors;

OptimizerState state_of(const optim::Sgd& sgd) {
  return {{sgd.momentum()}, {}};
}
OptimizerState state_of(const optim::AdamW& adamw) {
  const auto& state = adamw.state();
  return {{state.exp_avg, state.exp_avg_sq}, state.steps};
}
OptimizerState state_of(const optim::AdamW8bit& adamw) {
  const auto& state = adamw.state();
  OptimizerState all{std::vector<Tensors>(4), state.steps};
  for (size_t i = 0; i < state.steps.size(); ++i) {
    const auto &first = state.exp_avg[i], &second = state.exp_avg_sq[i];
    const at::Tensor parts[] = {first.codes, first.scales, second.codes, second.scales};
    for (size_t k = 0; k < std::size(parts); ++k) all.moments[k].push_back(parts[k]);
  }
  return all;
}

void load(optim::Sgd& sgd, OptimizerState state) {
  sgd.load_momentum(std::move(state.moments.at(0)));
}
void load(optim::AdamW& adamw, OptimizerState state) {
  adamw.load_state({state.moments.at(0), state.moments.at(1), std::move(state.steps)});
}
void load(optim::AdamW8bit& adamw, OptimizerState state) {
  optim::AdamW8bitState all{{}, {}, state.steps};
  for (size_t i = 0; i < state.steps.size(); ++i) {
    all.exp_avg.push_back({state.moments.at(0).at(i), state.moments.at(1).at(i)});
    all.exp_avg_sq.push_back({state.moments.at(2).at(i), state.moments.at(3).at(i)});
  }
  adamw.load_state(std::move(all));
}

// Those that are stepped by one of two optimizers, and back.
Tensors chosen(const Tensors& all, const std::vector<bool>& which, bool by) {
  Tensors some;
  for (size_t i = 0; i < all.size(); ++i)
    if (which[i] == by) some.push_back(all[i]);
  return some;
}
template <class T>
std::vector<T> spread(const std::vector<T>& some, const std::vector<bool>& which, bool by) {
  std::vector<T> all(which.size());
  size_t next = 0;
  for (size_t i = 0; i < which.size(); ++i)
    if (which[i] == by) all[i] = some.at(next++);
  return all;
}

}  // namespace

void Optimizer::MuonAndAdamW::step() {
  muon.step();
  adamw.step();
}

OptimizerState Optimizer::MuonAndAdamW::state() const {
  const auto& others = adamw.state();
  return {{spread(muon.momentum(), by_muon, true), spread(others.exp_avg, by_muon, false),
           spread(others.exp_avg_sq, by_muon, false)},
          spread(others.steps, by_muon, false)};
}

void Optimizer::MuonAndAdamW::load_state(const OptimizerState& state) {
  muon.load_momentum(chosen(state.moments.at(0), by_muon, true));
  std::vector<int64_t> steps;
  for (size_t i = 0; i < by_muon.size(); ++i)
    if (!by_muon[i]) steps.push_back(state.steps.at(i));
  adamw.load_state({chosen(state.moments.at(1), by_muon, false), chosen(state.moments.at(2), by_muon, false),
                    std::move(steps)});
}

auto Optimizer::make(const Tensors& parameters, const TrainOptions& o, std::vector<bool> by_muon)
    -> std::variant<optim::AdamW, optim::Sgd, optim::AdamW8bit, MuonAndAdamW> {
  if (is_sgd(o.optimizer))
    return optim::Sgd(
        parameters,
        {.lr = o.lr, .momentum = 0.9, .weight_decay = o.weight_decay, .fused = is_fused(o.optimizer)});
  if (o.optimizer == OptimizerKind::kAdamW8bit)
    return optim::AdamW8bit(parameters, {.lr = o.lr,
                                         .beta2 = 0.95,
                                         .weight_decay = o.weight_decay,
                                         .block_size = o.block_size,
                                         .min_8bit_size = o.min_8bit_size});
  const auto adamw = [&](const Tensors& of) {
    return optim::AdamW(
        of, {.lr = o.lr, .beta2 = 0.95, .weight_decay = o.weight_decay, .fused = is_fused(o.optimizer)});
  };
  if (o.optimizer != OptimizerKind::kMuon) return adamw(parameters);
  if (by_muon.size() != parameters.size())
    throw Broken("an optimizer is not told which parameters Muon steps");
  return MuonAndAdamW{
      optim::Muon(chosen(parameters, by_muon, true),
                  {.lr = o.lr, .weight_decay = o.weight_decay, .adjust_lr = optim::AdjustLr::kMatchRmsAdamW}),
      adamw(chosen(parameters, by_muon, false)), std::move(by_muon)};
}

Optimizer::Optimizer(const Tensors& parameters, const TrainOptions& options, std::vector<bool> by_muon)
    : optimizer_(make(parameters, options, std::move(by_muon))) {}

void Optimizer::step() {
  std::visit([](auto& one) { one.step(); }, optimizer_);
}

OptimizerState Optimizer::state() const {
  if (const auto* both = std::get_if<MuonAndAdamW>(&optimizer_)) return both->state();
  if (const auto* sgd = std::get_if<optim::Sgd>(&optimizer_)) return state_of(*sgd);
  if (const auto* adamw = std::get_if<optim::AdamW8bit>(&optimizer_)) return state_of(*adamw);
  return state_of(std::get<optim::AdamW>(optimizer_));
}

void Optimizer::load_state(OptimizerState state) {
  if (auto* both = std::get_if<MuonAndAdamW>(&optimizer_)) return both->load_state(state);
  if (auto* sgd = std::get_if<optim::Sgd>(&optimizer_)) return load(*sgd, std::move(state));
  if (auto* adamw = std::get_if<optim::AdamW8bit>(&optimizer_)) return load(*adamw, std::move(state));
  load(std::get<optim::AdamW>(optimizer_), std::move(state));
}

std::vector<bool> by_muon(const nn::Named<at::Tensor>& parameters) {
  std::vector<bool> which;
  for (const auto& [path, parameter] : parameters)
    which.push_back(parameter.dim() == 2 && path.starts_with("layers."));
  return which;
}

std::vector<bool> matrices(const Tensors& parameters) {
  std::vector<bool> which;
  for (const auto& parameter : parameters) which.push_back(parameter.dim() == 2);
  return which;
}

}  // namespace lockstep::suites
