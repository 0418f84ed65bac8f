// SPDX-License-Identifier: Apache-2.0
#include "engine/optim/gradients.h"

#include <ATen/ATen.h>

#include <cmath>

#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep::optim {
namespace {

std::string described(const at::Tensor& tensor) {
  return is_dtensor(tensor) ? to_string(spec(tensor)) : std::string("a plain tensor");
}

void check_placement(const at::Tensor& parameter, const at::Tensor& gradient) {
  const bool same = is_dtensor(parameter) == is_dtensor(gradient) &&
                    (!is_dtensor(parameter) || placements(parameter) == placements(gradient));
  LOCKSTEP_CHECK(same, "[optim] the gradient of a parameter is ", described(gradient), ", the parameter ",
                 described(parameter),
                 "; redistribute the gradient, or make the parameter with lockstep::parameter");
}

bool is_half(at::ScalarType dtype) {
  return dtype == at::kHalf || dtype == at::kBFloat16;
}

// A tensor of no dimensions: the sum of the powers of all elements' absolute values, or the largest of these.
at::Tensor sum_of_powers(const at::Tensor& gradient, double power) {
  const auto g = is_half(gradient.scalar_type()) ? gradient.to(at::kFloat) : gradient;
  if (power == 2) return (g * g).sum();
  if (g.numel() == 0) return g.sum();  // of which there is no largest
  return std::isinf(power) ? g.abs().amax() : g.abs().pow(power).sum();
}

at::Tensor norm_of(const Tensors& gradients, double power) {
  Tensors sums;
  for (const auto& gradient : gradients) sums.push_back(sum_of_powers(gradient, power));
  const auto all = at::stack(sums);
  if (std::isinf(power)) return all.amax();
  return power == 2 ? all.sum().sqrt() : all.sum().pow(1 / power);
}

}  // namespace

std::vector<size_t> with_gradient(const Tensors& parameters) {
  std::vector<size_t> indices;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    check_placement(parameters[i], gradient);
    indices.push_back(i);
  }
  return indices;
}

void require_cpu(const Tensors& parameters, const char* optimizer) {
  for (const auto& parameter : parameters)
    LOCKSTEP_CHECK(parameter.device().is_cpu(), "[optim] ", optimizer,
                   " steps parameters on the CPU alone, and one is on ", parameter.device(),
                   "; step it by AdamW");
}

Tensors pick(const Tensors& all, const std::vector<size_t>& indices) {
  Tensors picked;
  for (const auto i : indices) picked.push_back(all[i]);
  return picked;
}

Tensors gradients(const Tensors& parameters, const std::vector<size_t>& indices) {
  Tensors picked;
  for (const auto i : indices) picked.push_back(parameters[i].grad());
  return picked;
}

at::Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type,
                           bool error_if_nonfinite) {
  LOCKSTEP_CHECK(norm_type > 0, "[optim] clip_grad_norm_ with a norm_type of ", norm_type,
                 "; give a number above 0, or infinity");
  const at::NoGradGuard no_grad;
  const auto grads = gradients(parameters, with_gradient(parameters));
  if (grads.empty()) return at::zeros({});
  const auto norm = norm_of(grads, norm_type);
  if (error_if_nonfinite) {
    const double value = (is_dtensor(norm) ? full_tensor(norm) : norm).item<double>();
    LOCKSTEP_CHECK(std::isfinite(value), "[optim] the norm of the gradients, of order ", norm_type, ", is ",
                   value, "; to scale them by it nevertheless leave out error_if_nonfinite");
  }
  const auto scale = (max_norm / (norm + 1e-6)).clamp_max(1.0);
  at::_foreach_mul_(grads, scale);
  return norm;
}

void zero_grad(const Tensors& parameters, bool set_to_none) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : parameters) {
    auto& gradient = parameter.mutable_grad();
    if (set_to_none) {
      gradient = at::Tensor();
    } else if (gradient.defined()) {
      if (gradient.grad_fn()) gradient.detach_();
      gradient.zero_();
    }
  }
}

}  // namespace lockstep::optim
