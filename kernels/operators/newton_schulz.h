// SPDX-License-Identifier: Apache-2.0
// An approximate orthogonalisation: what Muon makes of a momentum.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace lockstep {

// The quintic iteration X <- a X + (b A + c A A) X, A = X X^T, from the matrix divided by its norm (at least
// `eps`), in the operators, and their order, of torch.optim.Muon of libtorch 2.11: the same bits where
// `dtype` is bfloat16. The wider side of the matrix is the columns. Jordan et al., Muon: An optimizer for
// hidden layers in neural networks (2024). Unlike torch's it never writes to its argument, a matrix in
// bfloat16 included.
at::Tensor newton_schulz(const at::Tensor& matrix, const std::array<double, 3>& coefficients, int64_t steps,
                         double eps, at::ScalarType dtype);

}  // namespace lockstep
