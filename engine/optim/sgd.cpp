// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "engine/optim/gradients.h"
#include "engine/values/error.h"

namespace lockstep::optim {

Sgd::Sgd(Tensors parameters, SgdOptions options)
    : parameters_(std::move(parameters)), momentum_(parameters_.size()), options_(options) {
  LOCKSTEP_CHECK(!options_.nesterov || (options_.momentum > 0 && options_.dampening == 0),
                 "[optim] nesterov needs momentum above 0 and no dampening; got momentum ", options_.momentum,
                 ", dampening ", options_.dampening);
}

// In 16 bits the vectors of libtorch's CPU kernel leave parameters as they are, and lose a term of the
// momentum; the elements behind the last whole vector are right.
static void check_fused(const at::Tensor& parameter) {
  LOCKSTEP_CHECK(!parameter.device().is_cpu() || parameter.element_size() > 2,
                 "[optim] aten::_fused_sgd_ updates ", parameter.scalar_type(),
                 " wrongly on the CPU, as libtorch 2.11 has it; keep the parameters in float (",
                 "MixedPrecisionPolicy computes in 16 bits), or leave out `fused`");
}

void Sgd::step() {
  const at::NoGradGuard no_grad;
  const auto active = with_gradient(parameters_);
  if (active.empty()) return;
  if (!options_.fused) return step_foreach(active);
  for (const auto i : active) check_fused(parameters_[i]);
  std::vector<size_t> first, later;
  for (const auto i : active)
    (options_.momentum != 0 && !momentum_[i].defined() ? first : later).push_back(i);
  for (const auto i : first) momentum_[i] = at::zeros_like(parameters_[i]);
  if (!first.empty()) step_fused(first, true);
  if (!later.empty()) step_fused(later, false);
}

void Sgd::step_fused(const std::vector<size_t>& active, bool first) {
  const auto& o = options_;
  at::_fused_sgd_(pick(parameters_, active), gradients(parameters_, active),
                  o.momentum != 0 ? pick(momentum_, active) : Tensors(), o.weight_decay, o.momentum, o.lr,
                  o.dampening, o.nesterov, /*maximize=*/false, first);
}

void Sgd::step_foreach(const std::vector<size_t>& active) {
  const auto& o = options_;
  const auto parameters = pick(parameters_, active);
  auto direction = gradients(parameters_, active);
  if (o.weight_decay != 0) direction = at::_foreach_add(direction, parameters, o.weight_decay);
  if (o.momentum != 0) {
    Tensors old, news;
    for (size_t k = 0; k < active.size(); ++k) {
      auto& buffer = momentum_[active[k]];
      if (buffer.defined()) {
        old.push_back(buffer);
        news.push_back(direction[k]);
      } else {
        buffer = direction[k].clone();
      }
    }
    if (!old.empty()) {
      at::_foreach_mul_(old, o.momentum);
      at::_foreach_add_(old, news, 1 - o.dampening);
    }
    const auto buffers = pick(momentum_, active);
    direction = o.nesterov ? at::_foreach_add(direction, buffers, o.momentum) : buffers;
  }
  at::_foreach_add_(parameters, direction, -o.lr);
}

}  // namespace lockstep::optim
