// SPDX-License-Identifier: Apache-2.0
// What the optimizers share: which parameters take part in a step, and the check on their gradients.
#pragma once
#include "engine/optim/optimizer.h"

namespace lockstep::optim {

// The indices of parameters with a gradient. Throws Error if a gradient is plain where its parameter is
// distributed, or the other way round, or placed otherwise: a hook may have returned such a one.
std::vector<size_t> with_gradient(const Tensors& parameters);

Tensors pick(const Tensors& all, const std::vector<size_t>& indices);
Tensors gradients(const Tensors& parameters, const std::vector<size_t>& indices);

}  // namespace lockstep::optim
