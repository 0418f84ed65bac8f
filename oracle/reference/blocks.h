// SPDX-License-Identifier: Apache-2.0
// What needs blocks or matrices whole, from its definition and without a thought of speed: numbers of 8 bits
// in tiles, and Muon's direction.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>

namespace lockstep::oracle {

struct InTiles {
  at::Tensor codes, scales;
};

// Dettmers et al. 2022, sections 2 and 3, with tiles of `tile` rows and columns of each matrix in the last
// two dimensions as blocks, smaller at its edges. `of` is in single precision.
InTiles in_tiles(const at::Tensor& of, bool is_signed, int64_t tile);
at::Tensor out_of_tiles(const InTiles& from, bool is_signed, int64_t tile);

// Jordan et al. 2024, as torch.optim.Muon of libtorch 2.11 has it.
at::Tensor orthogonal(const at::Tensor& matrix, const std::array<double, 3>& coefficients, int64_t iterations,
                      double eps, bool in_float);

}  // namespace lockstep::oracle
