// SPDX-License-Identifier: Apache-2.0
// How the result of three operands that broadcast lies in memory.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep {

// A meta tensor that lies as a kernel over these three, asked in this order, lays out its result: numbers of
// the host and tensors of a device alike. Throws c10::Error where their shapes do not fit.
at::Tensor laid_out_by(const at::Tensor& first, const at::Tensor& second, const at::Tensor& third);

}  // namespace lockstep
