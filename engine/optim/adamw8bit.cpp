// SPDX-License-Identifier: Apache-2.0
#include "engine/optim/adamw8bit.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <tuple>

#include "engine/optim/gradients.h"
#include "engine/values/error.h"

namespace lockstep::optim {
namespace {

template <class Signature>
auto operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace

AdamW8bit::AdamW8bit(Tensors parameters, AdamW8bitOptions options)
    : parameters_(std::move(parameters)),
      state_{std::vector<Moment8bit>(parameters_.size()), std::vector<Moment8bit>(parameters_.size()),
             std::vector<int64_t>(parameters_.size())},
      options_(options) {
  LOCKSTEP_CHECK(options.block_size >= 1, "[optim] AdamW8bit with a block_size of ", options.block_size,
                 "; a tile has a row and a column at least");
  require_cpu(parameters_, "AdamW8bit");
}

bool AdamW8bit::is_8bit(const at::Tensor& parameter) const {
  return parameter.dim() >= 2 && parameter.numel() >= options_.min_8bit_size &&
         parameter.scalar_type() == at::kFloat;
}

at::Tensor AdamW8bit::widened(const Moment8bit& moment, const at::Tensor& parameter, bool is_signed) const {
  if (!moment.scales.defined()) return at::zeros_like(parameter);
  if (!moment.codes.defined()) return moment.scales;
  static const auto dequantize =
      operator_of<at::Tensor(const at::Tensor&, const at::Tensor&, bool, int64_t, int64_t)>(
          "optim::dequantize_tiles");
  return dequantize.call(moment.codes, moment.scales, is_signed, options_.block_size, options_.block_size);
}

Moment8bit AdamW8bit::narrowed(const at::Tensor& moment, bool is_signed) const {
  if (!is_8bit(moment)) return {{}, moment};
  static const auto quantize =
      operator_of<std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, bool, int64_t, int64_t)>(
          "optim::quantize_tiles");
  auto [codes, scales] = quantize.call(moment, is_signed, options_.block_size, options_.block_size);
  return {codes, scales};
}

void AdamW8bit::step() {
  const at::NoGradGuard no_grad;
  std::vector<size_t> wide;
  for (const auto i : with_gradient(parameters_)) {
    ++state_.steps[i];
    // One by one, so that the moments of one parameter alone are wide.
    is_8bit(parameters_[i]) ? update({i}) : wide.push_back(i);
  }
  if (!wide.empty()) update(wide);
}

void AdamW8bit::update(const std::vector<size_t>& indices) {
  Tensors exp_avg, exp_avg_sq;
  std::vector<int64_t> steps;
  for (const auto i : indices) {
    exp_avg.push_back(widened(state_.exp_avg[i], parameters_[i], true));
    exp_avg_sq.push_back(widened(state_.exp_avg_sq[i], parameters_[i], false));
    steps.push_back(state_.steps[i]);
  }
  const auto& o = options_;
  update_adamw({.lr = o.lr, .beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay},
               pick(parameters_, indices), gradients(parameters_, indices), exp_avg, exp_avg_sq, steps);
  for (size_t k = 0; k < indices.size(); ++k) {
    state_.exp_avg[indices[k]] = narrowed(exp_avg[k], true);
    state_.exp_avg_sq[indices[k]] = narrowed(exp_avg_sq[k], false);
  }
}

}  // namespace lockstep::optim
