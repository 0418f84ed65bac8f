// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/update.h"

#include <ATen/ATen.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

namespace lockstep::oracle {
namespace {

std::unique_ptr<torch::optim::Optimizer> made(std::vector<at::Tensor> parameters, const UpdateRule& r) {
  if (!r.adamw)
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
    : optimizer_(made(std::move(parameters), rule)) {}
ReferenceOptimizer::~ReferenceOptimizer() = default;

void ReferenceOptimizer::step() {
  optimizer_->step();
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
