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
template <class T>
std::vector<T> chosen(const std::vector<T>& all, const std::vector<bool>& which, bool by) {
  std::vector<T> some;
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

OptimizerState state_of(const MuonAndAdamW& both) {
  const auto& which = both.by_muon;
  const auto& others = both.adamw.state();
  return {{spread(both.muon.momentum(), which, true), spread(others.exp_avg, which, false),
           spread(others.exp_avg_sq, which, false)},
          spread(others.steps, which, false)};
}
void load(MuonAndAdamW& both, const OptimizerState& state) {
  const auto& which = both.by_muon;
  both.muon.load_momentum(chosen(state.moments.at(0), which, true));
  both.adamw.load_state({chosen(state.moments.at(1), which, false), chosen(state.moments.at(2), which, false),
                         chosen(state.steps, which, false)});
}

// By the alternative of the variant.
const std::vector<std::string> kMomentNames[] = {
    {"exp_avg", "exp_avg_sq"},
    {"momentum_buffer"},
    {"exp_avg.codes", "exp_avg.scales", "exp_avg_sq.codes", "exp_avg_sq.scales"},
    {"momentum_buffer", "exp_avg", "exp_avg_sq"}};

std::variant<optim::AdamW, optim::Sgd, optim::AdamW8bit, MuonAndAdamW> make(const Tensors& parameters,
                                                                            const TrainOptions& o,
                                                                            std::vector<bool> by_muon) {
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

}  // namespace

Optimizer::Optimizer(const Tensors& parameters, const TrainOptions& options, std::vector<bool> by_muon)
    : optimizer_(make(parameters, options, std::move(by_muon))) {}

void Optimizer::step() {
  std::visit([](auto& one) { one.step(); }, optimizer_);
}

OptimizerState Optimizer::state() const {
  return std::visit([](const auto& one) { return state_of(one); }, optimizer_);
}

void Optimizer::load_state(OptimizerState state) {
  std::visit([&](auto& one) { load(one, std::move(state)); }, optimizer_);
}

std::vector<std::string> Optimizer::moment_names() const {
  return kMomentNames[optimizer_.index()];
}

std::vector<bool> by_muon(const nn::Named<at::Tensor>& parameters, std::string_view layers) {
  std::vector<bool> which;
  for (const auto& [path, parameter] : parameters)
    which.push_back(parameter.dim() == 2 && path.starts_with(concat(layers, ".")));
  return which;
}

std::vector<bool> matrices(const Tensors& parameters) {
  std::vector<bool> which;
  for (const auto& parameter : parameters) which.push_back(parameter.dim() == 2);
  return which;
}

}  // namespace lockstep::suites
