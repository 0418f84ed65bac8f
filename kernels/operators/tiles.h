// SPDX-License-Identifier: Apache-2.0
// Matrices in tiles, each of which has one scale: 8 bits an element, and what they stand for.
#pragma once
#include <cstdint>

#include "kernels/operators/dynamic_map.h"

namespace lockstep {

// Row by row in memory; tiles begin at the upper left, and are smaller at the lower and the right edge.
struct Tiling {
  int64_t rows = 0, columns = 0;
  int64_t tile_rows = 32, tile_columns = 32;

  int64_t down() const { return (rows + tile_rows - 1) / tile_rows; }
  int64_t across() const { return (columns + tile_columns - 1) / tile_columns; }
  int64_t numel() const { return rows * columns; }
  int64_t count() const { return down() * across(); }
};

// scales [down x across]: the greatest magnitude of each tile, NaN where it has one. codes: which entry of
// the map is nearest to value * (1 / scale), in single precision, the lower one of two; where that factor is
// no finite number, as of a tile of zeros, that of 0.
void quantize_tiles(const float* values, const Tiling& tiling, const DynamicMap& map, uint8_t* codes,
                    float* scales);
// values: entry times scale.
void dequantize_tiles(const uint8_t* codes, const float* scales, const Tiling& tiling, const DynamicMap& map,
                      float* values);

// The same in 8 bits evenly spaced, for weights: scales are the greatest magnitude over 127; codes, from -127
// to 127, the nearest whole number to value / scale, the even one of two, and 0 where the scale is zero or no
// finite number.
void quantize_int8(const float* values, const Tiling& tiling, int8_t* codes, float* scales);
// values: code times scale, so of a tile with a NaN NaNs.
void dequantize_int8(const int8_t* codes, const float* scales, const Tiling& tiling, float* values);

}  // namespace lockstep
