// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/dropped.h"

#include <ATen/ATen.h>

namespace lockstep::oracle {

at::Tensor dropped_by(const at::Tensor& mask, const at::Tensor& x, double p) {
  const bool is_double = x.scalar_type() == at::kDouble;
  const auto wide = is_double ? at::kDouble : at::kFloat;
  const double scale = is_double ? 1.0 / (1.0 - p) : static_cast<double>(1.0F / static_cast<float>(1.0 - p));
  return at::mul(at::mul(x.to(wide), mask.to(wide)), scale).to(x.scalar_type());
}

}  // namespace lockstep::oracle
