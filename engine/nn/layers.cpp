// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/layers.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/nn/init.h"

namespace lockstep::nn {

Linear::Linear(int64_t in, int64_t out, bool bias, at::ScalarType dtype) : bias_(bias) {
  add_parameter("weight", {out, in}, dtype);
  if (bias) add_parameter("bias", {out}, dtype);
}

void Linear::reset_own_parameters() {
  auto weight = parameter("weight");
  kaiming_uniform_(weight, std::sqrt(5.0));
  if (!bias_) return;
  const double bound = 1.0 / std::sqrt(static_cast<double>(weight.size(1)));
  parameter("bias").uniform_(-bound, bound);
}

at::Tensor Linear::forward(const Tensors& inputs) {
  return at::linear(inputs.at(0), parameter("weight"),
                    bias_ ? std::optional(parameter("bias")) : std::nullopt);
}

Embedding::Embedding(int64_t count, int64_t size, at::ScalarType dtype) {
  add_parameter("weight", {count, size}, dtype);
}

void Embedding::reset_own_parameters() {
  parameter("weight").normal_();
}

at::Tensor Embedding::forward(const Tensors& inputs) {
  return at::embedding(parameter("weight"), inputs.at(0));
}

RMSNorm::RMSNorm(int64_t size, double eps, at::ScalarType dtype) : size_(size), eps_(eps) {
  add_parameter("weight", {size}, dtype);
}

void RMSNorm::reset_own_parameters() {
  parameter("weight").fill_(1);
}

at::Tensor RMSNorm::forward(const Tensors& inputs) {
  return at::rms_norm(inputs.at(0), {size_}, parameter("weight"), eps_);
}

LayerNorm::LayerNorm(int64_t size, double eps, at::ScalarType dtype) : size_(size), eps_(eps) {
  add_parameter("weight", {size}, dtype);
  add_parameter("bias", {size}, dtype);
}

void LayerNorm::reset_own_parameters() {
  parameter("weight").fill_(1);
  parameter("bias").zero_();
}

at::Tensor LayerNorm::forward(const Tensors& inputs) {
  return at::layer_norm(inputs.at(0), {size_}, parameter("weight"), parameter("bias"), eps_);
}

at::Tensor Dropout::forward(const Tensors& inputs) {
  return at::dropout(inputs.at(0), p_, is_training());
}

void Sequential::push_back(std::shared_ptr<Module> module) {
  modules_.push_back(add_child(std::to_string(modules_.size()), std::move(module)));
}

at::Tensor Sequential::forward(const Tensors& inputs) {
  auto x = inputs.at(0);
  for (const auto& module : modules_) x = (*module)(x);
  return x;
}

CrossEntropy::CrossEntropy(int64_t classes) {
  add_buffer("classes", [classes](at::Device device) {
    return at::arange(classes, at::TensorOptions(at::kLong).device(device));
  });
}

at::Tensor CrossEntropy::forward(const Tensors& inputs) {
  const auto& logits = inputs.at(0);
  const auto not_target = buffer("classes").ne(inputs.at(1).unsqueeze(-1));
  // A shift by the maximum changes nothing but the range, so it takes no part in the gradient.
  const auto shifted = logits - logits.detach().amax(-1, /*keepdim=*/true);
  const auto log_sum = shifted.exp().sum(-1).log();
  const auto target = shifted.masked_fill(not_target, 0).sum(-1);
  return (log_sum - target).mean();
}

}  // namespace lockstep::nn
