// SPDX-License-Identifier: Apache-2.0
// native_dropout where the mask is known.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep::oracle {

// Stock CUDA's y = T((x * m) * (1 / (1 - p))), in float for all but double, where the tensors are and laid as
// x. p < 1.
at::Tensor dropped_by(const at::Tensor& mask, const at::Tensor& x, double p);

}  // namespace lockstep::oracle
