// SPDX-License-Identifier: Apache-2.0
// Operators that libtorch lacks and optimizers need, and those of experts.h, in its dispatcher, on plain
// tensors in the host's memory. What engine and oracle know of them is what they know of any: names and
// schemas.
#pragma once

namespace lockstep {

// optim::quantize_tiles(Tensor self, bool is_signed, int tile_rows, int tile_columns)
//     -> (Tensor codes, Tensor scales)
// optim::dequantize_tiles(Tensor codes, Tensor scales, bool is_signed, int tile_rows, int tile_columns) ->
// Tensor
//   Of matrices, the last two dimensions, in single precision (tiles.h): codes of their shape, 8 bits each,
//   and one scale a tile; a result in the dtype of the scales.
// optim::quantize_int8(Tensor self, int tile_rows=128, int tile_columns=128) -> (Tensor codes, Tensor scales)
// optim::dequantize_int8(Tensor codes, Tensor scales, int tile_rows=128, int tile_columns=128) -> Tensor
//   The same in evenly spaced int8, for weights.
// optim::newton_schulz(Tensor self, float[] coefficients, int steps, float eps, bool single_precision) ->
// Tensor
//   Of a matrix (newton_schulz.h), in bfloat16 or single precision. One without elements is given back so.
// None of them is differentiable.
//
// Before anybody asks the dispatcher for them; again, it does nothing.
void define_operators();

}  // namespace lockstep
