// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/update.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cmath>

#include "oracle/reference/blocks.h"

namespace lockstep::oracle {
namespace {

using torch::optim::AdamWParamState;

std::unique_ptr<torch::optim::Optimizer> made(std::vector<at::Tensor> parameters, const UpdateRule& r) {
  if (r.update == Update::kMuon) return nullptr;
  if (r.update == Update::kSgd)
    return std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(r.lr)
                                                                          .momentum(r.momentum)
                                                                          .dampening(r.dampening)
                                                                          .weight_decay(r.weight_decay)
                                                                          .nesterov(r.nesterov));
  return std::make_unique<torch::optim::AdamW>(
      std::move(parameters),
      torch::optim::AdamWOptions(r.lr).betas({r.beta1, r.beta2}).eps(r.eps).weight_decay(r.weight_decay));
}

}  // namespace

ReferenceOptimizer::ReferenceOptimizer(std::vector<at::Tensor> parameters, const UpdateRule& rule)
    : rule_(rule),
      parameters_(parameters),
      memory_(parameters.size()),
      optimizer_(made(std::move(parameters), rule)) {}
ReferenceOptimizer::~ReferenceOptimizer() = default;

void ReferenceOptimizer::step() {
  if (optimizer_ == nullptr) return step_muon();
  optimizer_->step();
  if (rule_.update == Update::kAdamW8bit) quantize();
}

std::vector<at::Tensor> ReferenceOptimizer::memory(size_t parameter) const {
  return memory_.at(parameter);
}

// AdamW has stepped by wide moments; until the next step they are what fits into 8 bits.
void ReferenceOptimizer::quantize() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& p = parameters_[i];
    const auto found = optimizer_->state().find(p.unsafeGetTensorImpl());
    if (!p.grad().defined() || found == optimizer_->state().end()) continue;
    auto& state = static_cast<AdamWParamState&>(*found->second);
    if (p.dim() < 2 || p.numel() < rule_.least || p.scalar_type() != at::kFloat) {
      memory_[i] = {{}, state.exp_avg().clone(), {}, state.exp_avg_sq().clone()};
      continue;
    }
    const auto first = in_tiles(state.exp_avg(), true, rule_.tile);
    const auto second = in_tiles(state.exp_avg_sq(), false, rule_.tile);
    memory_[i] = {first.codes, first.scales, second.codes, second.scales};
    state.exp_avg(out_of_tiles(first, true, rule_.tile));
    state.exp_avg_sq(out_of_tiles(second, false, rule_.tile));
  }
}

void ReferenceOptimizer::step_muon() {
  const at::NoGradGuard no_grad;
  const auto& r = rule_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto& p = parameters_[i];
    const auto gradient = p.grad();
    if (!gradient.defined()) continue;
    if (memory_[i].empty()) memory_[i] = {at::zeros_like(gradient)};
    const auto& momentum = memory_[i][0];
    momentum.lerp_(gradient, 1 - r.momentum);
    const auto direction = orthogonal(r.nesterov ? gradient.lerp(momentum, r.momentum) : momentum,
                                      r.coefficients, r.iterations, r.eps, r.in_float);
    const auto rows = static_cast<double>(p.size(0)), columns = static_cast<double>(p.size(1));
    const double larger =
        r.by_rms ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
    p.mul_(1 - r.lr * r.weight_decay);
    p.add_(direction, -(r.lr * larger));
  }
}

at::Tensor clip_by_norm(const std::vector<at::Tensor>& parameters, double most) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  for (const auto& parameter : parameters) flat.push_back(parameter.grad().flatten());
  const auto norm = at::linalg_vector_norm(at::cat(flat));
  const double limit = most / (norm.item<double>() + 1e-6);
  if (limit < 1)
    for (const auto& parameter : parameters) parameter.grad().mul_(limit);
  return norm;
}

}  // namespace lockstep::oracle
