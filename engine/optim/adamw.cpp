// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>

#include <cmath>

#include "engine/optim/gradients.h"

namespace lockstep::optim {

AdamW::AdamW(Tensors parameters, AdamWOptions options)
    : parameters_(std::move(parameters)),
      state_{Tensors(parameters_.size()), Tensors(parameters_.size()),
             std::vector<int64_t>(parameters_.size())},
      options_(options) {}

void AdamW::step() {
  const at::NoGradGuard no_grad;
  const auto active = with_gradient(parameters_);
  if (active.empty()) return;
  for (const auto i : active) {
    if (state_.steps[i]++ > 0) continue;
    state_.exp_avg[i] = at::zeros_like(parameters_[i]);
    state_.exp_avg_sq[i] = at::zeros_like(parameters_[i]);
  }
  options_.fused ? step_fused(active) : step_foreach(active);
}

void AdamW::step_foreach(const std::vector<size_t>& active) {
  std::vector<int64_t> steps;
  for (const auto i : active) steps.push_back(state_.steps[i]);
  update_adamw(options_, pick(parameters_, active), gradients(parameters_, active),
               pick(state_.exp_avg, active), pick(state_.exp_avg_sq, active), steps);
}

void update_adamw(const AdamWOptions& o, const Tensors& parameters, const Tensors& grads,
                  const Tensors& exp_avg, const Tensors& exp_avg_sq, const std::vector<int64_t>& steps) {
  std::vector<at::Scalar> root_correction, negative_step_size;
  for (const auto step : steps) {
    const auto n = static_cast<double>(step);
    root_correction.emplace_back(std::sqrt(1 - std::pow(o.beta2, n)));
    negative_step_size.emplace_back(-(o.lr / (1 - std::pow(o.beta1, n))));
  }
  if (o.weight_decay != 0) at::_foreach_mul_(parameters, 1 - o.lr * o.weight_decay);
  at::_foreach_mul_(exp_avg, o.beta1);
  at::_foreach_add_(exp_avg, grads, 1 - o.beta1);
  at::_foreach_mul_(exp_avg_sq, o.beta2);
  at::_foreach_addcmul_(exp_avg_sq, grads, grads, 1 - o.beta2);
  const auto denominator = at::_foreach_sqrt(exp_avg_sq);
  at::_foreach_div_(denominator, root_correction);
  at::_foreach_add_(denominator, o.eps);
  at::_foreach_addcdiv_(parameters, exp_avg, denominator, negative_step_size);
}

void AdamW::step_fused(const std::vector<size_t>& active) {
  const auto& o = options_;
  Tensors steps;
  for (const auto i : active) {
    const auto step = static_cast<double>(state_.steps[i]);
    const auto device = parameters_[i].device();  // a CUDA kernel reads it there, in 32 bits
    steps.push_back(device.is_cpu() ? c10::scalar_to_tensor(step)
                                    : at::full({}, step, at::TensorOptions(at::kFloat).device(device)));
  }
  at::_fused_adamw_(pick(parameters_, active), gradients(parameters_, active), pick(state_.exp_avg, active),
                    pick(state_.exp_avg_sq, active), /*max_exp_avg_sqs=*/Tensors(), steps, o.lr, o.beta1,
                    o.beta2, o.weight_decay, o.eps, /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace lockstep::optim
