// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/tiles.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace lockstep {
namespace {

// The lower one of those that are nearest; of a NaN, the last.
uint8_t nearest(const DynamicMap& map, float value) {
  const auto above = std::upper_bound(map.begin(), map.end(), value);
  if (above == map.begin()) return 0;
  const auto below = std::prev(above);
  const bool takes_above = above != map.end() && *above - value < value - *below;
  return static_cast<uint8_t>((takes_above ? above : below) - map.begin());
}

// One tile: of its first row and column, and behind its last ones.
struct Tile {
  int64_t row, column, row_end, column_end;
};

template <class F>
void for_tiles(const Tiling& t, const F& f) {
  for (int64_t i = 0; i < t.down(); ++i)
    for (int64_t j = 0; j < t.across(); ++j)
      f(i * t.across() + j, Tile{i * t.tile_rows, j * t.tile_columns, std::min((i + 1) * t.tile_rows, t.rows),
                                 std::min((j + 1) * t.tile_columns, t.columns)});
}

template <class F>
void for_elements(const Tiling& t, const Tile& tile, const F& f) {
  for (int64_t r = tile.row; r < tile.row_end; ++r)
    for (int64_t c = tile.column; c < tile.column_end; ++c) f(r * t.columns + c);
}

// The greatest magnitude of a tile; NaN where it has one.
float greatest(const float* values, const Tiling& tiling, const Tile& tile) {
  float most = 0;
  for_elements(tiling, tile, [&](int64_t e) {
    const float magnitude = std::fabs(values[e]);
    if (!(magnitude <= most)) most = std::isnan(most) ? most : magnitude;
  });
  return most;
}

}  // namespace

void quantize_tiles(const float* values, const Tiling& tiling, const DynamicMap& map, uint8_t* codes,
                    float* scales) {
  for_tiles(tiling, [&](int64_t at, const Tile& tile) {
    const float scale = scales[at] = greatest(values, tiling, tile);
    const float inverse = std::isinf(1 / scale) ? 0.0F : 1 / scale;
    for_elements(tiling, tile, [&](int64_t e) { codes[e] = nearest(map, values[e] * inverse); });
  });
}

void dequantize_tiles(const uint8_t* codes, const float* scales, const Tiling& tiling, const DynamicMap& map,
                      float* values) {
  for_tiles(tiling, [&](int64_t at, const Tile& tile) {
    for_elements(tiling, tile, [&](int64_t e) { values[e] = map[codes[e]] * scales[at]; });
  });
}

void quantize_int8(const float* values, const Tiling& tiling, int8_t* codes, float* scales) {
  for_tiles(tiling, [&](int64_t at, const Tile& tile) {
    const float scale = scales[at] = greatest(values, tiling, tile) / 127;
    const bool counts = std::isfinite(scale) && scale > 0;
    // A subnormal scale is coarse: what is greatest may lie beyond 127 of it.
    for_elements(tiling, tile, [&](int64_t e) {
      const float steps = counts ? std::nearbyint(values[e] / scale) : 0;
      codes[e] = static_cast<int8_t>(std::clamp(steps, -127.0F, 127.0F));
    });
  });
}

void dequantize_int8(const int8_t* codes, const float* scales, const Tiling& tiling, float* values) {
  for_tiles(tiling, [&](int64_t at, const Tile& tile) {
    for_elements(tiling, tile, [&](int64_t e) { values[e] = static_cast<float>(codes[e]) * scales[at]; });
  });
}

}  // namespace lockstep
