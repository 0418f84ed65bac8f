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

void Sgd::step() {
  const at::NoGradGuard no_grad;
  const auto active = with_gradient(parameters_);
  if (active.empty()) return;
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
