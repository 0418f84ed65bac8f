// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/init.h"

#include <cmath>

#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

// The gain of a leaky rectifier with slope a over the root of the fan: the standard deviation.
double kaiming_std(const at::Tensor& weight, double a) {
  return std::sqrt(2.0 / (1.0 + a * a)) / std::sqrt(static_cast<double>(fans(weight).in));
}

double xavier_std(const at::Tensor& weight, double gain) {
  const auto [in, out] = fans(weight);
  return gain * std::sqrt(2.0 / static_cast<double>(in + out));
}

}  // namespace

Fans fans(const at::Tensor& weight) {
  LOCKSTEP_CHECK(weight.dim() >= 2, "[init] fans need two dimensions or more; the tensor has shape ",
                 weight.sizes());
  int64_t field = 1;
  for (int64_t d = 2; d < weight.dim(); ++d) field *= weight.size(d);
  return {weight.size(1) * field, weight.size(0) * field};
}

at::Tensor& kaiming_uniform_(at::Tensor& weight, double a) {
  const double bound = std::sqrt(3.0) * kaiming_std(weight, a);
  weight.uniform_(-bound, bound);
  return weight;
}

at::Tensor& kaiming_normal_(at::Tensor& weight, double a) {
  weight.normal_(0.0, kaiming_std(weight, a));
  return weight;
}

at::Tensor& xavier_uniform_(at::Tensor& weight, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std(weight, gain);
  weight.uniform_(-bound, bound);
  return weight;
}

at::Tensor& xavier_normal_(at::Tensor& weight, double gain) {
  weight.normal_(0.0, xavier_std(weight, gain));
  return weight;
}

}  // namespace lockstep::nn
