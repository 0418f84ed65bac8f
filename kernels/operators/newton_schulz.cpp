// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/newton_schulz.h"

#include <ATen/ATen.h>

namespace lockstep {

at::Tensor newton_schulz(const at::Tensor& matrix, const std::array<double, 3>& coefficients, int64_t steps,
                         double eps, at::ScalarType dtype) {
  const auto [a, b, c] = coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const auto whole = matrix.to(dtype);
  auto x = is_tall ? whole.t() : whole;
  x = x.div(at::linalg_vector_norm(x, 2, at::IntArrayRef{0, 1}).clamp(eps));
  for (int64_t step = 0; step < steps; ++step) {
    const auto gram = x.mm(x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, b, c), x, a);
  }
  return is_tall ? x.t() : x;
}

}  // namespace lockstep
