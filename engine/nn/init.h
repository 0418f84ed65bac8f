// SPDX-License-Identifier: Apache-2.0
// Initialisers with torch's formulas, in place, on plain and distributed tensors: fans are those of the
// global shape.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep::nn {

struct Fans {
  int64_t in = 0, out = 0;
};
// torch: _calculate_fan_in_and_fan_out. Error for fewer than two dimensions.
Fans fans(const at::Tensor& weight);

at::Tensor& kaiming_uniform_(at::Tensor& weight, double a);
at::Tensor& kaiming_normal_(at::Tensor& weight, double a);
at::Tensor& xavier_uniform_(at::Tensor& weight, double gain = 1.0);
at::Tensor& xavier_normal_(at::Tensor& weight, double gain = 1.0);

// torch.nn.init.trunc_normal_: uniform numbers through the inverse of the normal distribution, cut off at low
// and high.
at::Tensor& trunc_normal_(at::Tensor& weight, double mean = 0.0, double std = 1.0, double low = -2.0,
                          double high = 2.0);

// torch.nn.init.orthogonal_: the orthogonal factor of a normal matrix of weight.size(0) rows. Of a
// distributed tensor each rank draws and factorises the whole matrix, and keeps its part; nothing is sent.
at::Tensor& orthogonal_(at::Tensor& weight, double gain = 1.0);

}  // namespace lockstep::nn
