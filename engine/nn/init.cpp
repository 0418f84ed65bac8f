// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/init.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cmath>
#include <numbers>

#include "engine/tensor/dtensor.h"
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

double normal_distribution(double x) {
  return (1.0 + std::erf(x / std::numbers::sqrt2)) / 2.0;
}

// Normal numbers of the shape that orthogonal_ factorises; of a distributed tensor whole on every rank, so
// that the factors are too.
at::Tensor normal_matrix(const at::Tensor& weight) {
  const std::vector<int64_t> shape = {weight.size(0), weight.numel() / weight.size(0)};
  if (!is_dtensor(weight)) return weight.new_empty(shape).normal_();
  const auto mesh = device_mesh(weight);
  return randn(shape, mesh, Placements(static_cast<size_t>(mesh.mesh.ndim()), Replicate{}),
               weight.scalar_type());
}

// The orthogonal factor of a matrix, with the signs that make it unique; transposed if it is wide.
at::Tensor orthogonal_factor(const at::Tensor& matrix) {
  const bool wide = matrix.size(0) < matrix.size(1);
  const auto [q, r] = at::linalg_qr(wide ? matrix.t() : matrix, "reduced");
  const auto signed_q = q.mul(r.diagonal().sign());
  return wide ? signed_q.t() : signed_q;
}

}  // namespace

Fans fans(const at::Tensor& weight) {
  LOCKSTEP_CHECK(weight.dim() >= 2, "[init] fans need two dimensions or more; the tensor has shape ",
                 weight.sizes());
  const int64_t field = c10::multiply_integers(weight.sizes().slice(2));
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

at::Tensor& trunc_normal_(at::Tensor& weight, double mean, double std, double low, double high) {
  const at::NoGradGuard no_grad;
  const double from = normal_distribution((low - mean) / std), to = normal_distribution((high - mean) / std);
  weight.uniform_(2 * from - 1, 2 * to - 1);
  weight.erfinv_().mul_(std * std::numbers::sqrt2).add_(mean).clamp_(low, high);
  return weight;
}

at::Tensor& orthogonal_(at::Tensor& weight, double gain) {
  LOCKSTEP_CHECK(weight.dim() >= 2, "[init] orthogonal_ needs two dimensions or more; the tensor has shape ",
                 weight.sizes());
  if (weight.numel() == 0) return weight;
  const at::NoGradGuard no_grad;
  weight.copy_(orthogonal_factor(normal_matrix(weight)).reshape(weight.sizes()));
  return weight.mul_(gain);
}

}  // namespace lockstep::nn
