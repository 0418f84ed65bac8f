// SPDX-License-Identifier: Apache-2.0
// What the optimizers share: which parameters take part in a step, the check on their gradients, and AdamW's
// step.
#pragma once
#include "engine/optim/optimizer.h"

namespace lockstep::optim {

// The indices of parameters with a gradient. Throws Error if a gradient is plain where its parameter is
// distributed, or the other way round, or placed otherwise: a hook may have returned such a one.
std::vector<size_t> with_gradient(const Tensors& parameters);

Tensors pick(const Tensors& all, const std::vector<size_t>& indices);
Tensors gradients(const Tensors& parameters, const std::vector<size_t>& indices);

// Throws Error that names `optimizer` for parameters elsewhere than in the host's memory: its operators have
// no other kernels.
void require_cpu(const Tensors& parameters, const char* optimizer);

// One step of AdamW over the _foreach_ ops, whatever holds the moments between two steps.
// @param steps of each parameter, this one included
void update_adamw(const AdamWOptions& options, const Tensors& parameters, const Tensors& grads,
                  const Tensors& exp_avg, const Tensors& exp_avg_sq, const std::vector<int64_t>& steps);

}  // namespace lockstep::optim
