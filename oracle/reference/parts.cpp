// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/parts.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <numbers>

namespace lockstep::oracle {
namespace {

namespace init = torch::nn::init;

// Uniform numbers between the quantiles of both ends, through the inverse of the normal distribution.
void trunc_normal(at::Tensor weight, double mean, double std, double low, double high) {
  const auto quantile = [&](double end) {
    return (1.0 + std::erf((end - mean) / std / std::numbers::sqrt2)) / 2.0;
  };
  weight.uniform_(2 * quantile(low) - 1, 2 * quantile(high) - 1);
  const auto normal = at::erfinv(weight) * (std * std::numbers::sqrt2) + mean;
  weight.copy_(at::clamp(normal, low, high));
}

constexpr ReferenceInit kInits[] = {
    {"kaiming_uniform_", [](at::Tensor w) { init::kaiming_uniform_(w, 0.2); }},
    {"kaiming_normal_", [](at::Tensor w) { init::kaiming_normal_(w, 0.2); }},
    {"xavier_uniform_", [](at::Tensor w) { init::xavier_uniform_(w, 2); }},
    {"xavier_normal_", [](at::Tensor w) { init::xavier_normal_(w, 2); }},
    {"orthogonal_", [](at::Tensor w) { init::orthogonal_(w, 1.5); }},
    {"trunc_normal_", [](at::Tensor w) { trunc_normal(w, 0.5, 2, -1, 3); }},
    {"trunc_normal_ standard", [](at::Tensor w) { trunc_normal(w, 0, 1, -2, 2); }},
};

}  // namespace

std::span<const ReferenceInit> reference_inits() {
  return kInits;
}

ReferenceLinear reference_linear(int64_t in, int64_t out, bool bias) {
  const torch::nn::Linear linear(torch::nn::LinearOptions(in, out).bias(bias));
  return {linear->weight.detach(), linear->bias.defined() ? linear->bias.detach() : at::Tensor()};
}

}  // namespace lockstep::oracle
