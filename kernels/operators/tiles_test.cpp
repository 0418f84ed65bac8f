// SPDX-License-Identifier: Apache-2.0
#include "kernels/operators/tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace lockstep {
namespace {

struct Quantized {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

Quantized quantized(const std::vector<float>& values, const Tiling& tiling, const DynamicMap& map) {
  Quantized q{std::vector<uint8_t>(values.size()),
              std::vector<float>(static_cast<size_t>(tiling.down() * tiling.across()))};
  quantize_tiles(values.data(), tiling, map, q.codes.data(), q.scales.data());
  return q;
}

std::vector<float> normal(int64_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<size_t>(n));
  for (auto& value : values) value = distribution(random);
  return values;
}

// The first of all entries that none is nearer than.
uint8_t by_brute_force(const DynamicMap& map, float value) {
  size_t best = 0;
  for (size_t i = 1; i < map.size(); ++i)
    if (std::fabs(map[i] - value) < std::fabs(map[best] - value)) best = i;
  return static_cast<uint8_t>(best);
}

// Catches: an entry too many or too few, a sign or an end left out, entries that are not in order.
TEST(DynamicMapTest, HasSevenDecades) {
  for (const bool is_signed : {false, true}) {
    const auto& map = dynamic_map(is_signed);
    EXPECT_TRUE(std::is_sorted(map.begin(), map.end(), std::less_equal<>())) << is_signed;
    EXPECT_EQ(map.back(), 1);
    EXPECT_EQ(std::count(map.begin(), map.end(), 0.0F), 1);
    float begin = 1;
    for (int64_t entries = is_signed ? 64 : 128; entries >= (is_signed ? 1 : 2); entries /= 2, begin /= 10) {
      const auto inside = [&](float v) { return v < begin && v > begin / 10; };
      EXPECT_EQ(std::count_if(map.begin(), map.end(), inside), entries) << begin;
      EXPECT_EQ(std::count_if(map.begin(), map.end(), [&](float v) { return inside(-v); }),
                is_signed ? entries : 0);
    }
  }
}

// Each code is that of the nearest entry, whatever the edges of tiles. Catches: the upper of two that are as
// near, a scale of a neighbour, an edge that reads beyond its row.
TEST(TilesTest, CodesAreNearest) {
  int64_t ties = 0;
  for (const bool is_signed : {false, true})
    for (const auto& t : {Tiling{7, 5, 3, 2}, {64, 64, 32, 32}, {33, 70, 32, 32}, {1, 256, 1, 256}, {0, 4}}) {
      const auto& map = dynamic_map(is_signed);
      auto values = normal(t.rows * t.columns, 7);
      for (float& value : values) value = std::clamp(value, -1.0F, 1.0F);
      for (size_t i = 0; i + 1 < std::min<size_t>(values.size(), 255); i += 2)  // as near to two
        values[i] = (map[i] + map[i + 1]) / 2;
      for (int64_t r = 0; r < t.rows; r += t.tile_rows)  // the scale, by which nothing moves off the middle
        for (int64_t c = 0; c < t.columns; c += t.tile_columns)
          values[static_cast<size_t>(r * t.columns + c)] = 1;
      const auto q = quantized(values, t, map);
      for (int64_t r = 0; r < t.rows; ++r)
        for (int64_t c = 0; c < t.columns; ++c) {
          float scale = 0;
          for (int64_t i = r / t.tile_rows * t.tile_rows;
               i < std::min((r / t.tile_rows + 1) * t.tile_rows, t.rows); ++i)
            for (int64_t j = c / t.tile_columns * t.tile_columns;
                 j < std::min((c / t.tile_columns + 1) * t.tile_columns, t.columns); ++j)
              scale = std::max(scale, std::fabs(values[static_cast<size_t>(i * t.columns + j)]));
          const auto e = static_cast<size_t>(r * t.columns + c);
          EXPECT_EQ(q.scales[static_cast<size_t>(r / t.tile_rows * t.across() + c / t.tile_columns)], scale);
          const float scaled = values[e] * (1 / scale);
          EXPECT_EQ(q.codes[e], by_brute_force(map, scaled)) << r << " " << c;
          const size_t next = q.codes[e] + size_t{1};
          ties += next < map.size() && map[next] - scaled == scaled - map[q.codes[e]];
        }
    }
  EXPECT_GT(ties, 100);
}

// A run of whole rows of tiles has the codes and scales that it has in the whole. Catches: what a shard sees
// of other tiles.
TEST(TilesTest, RowsOfTilesStandAlone) {
  const Tiling whole{100, 45, 32, 32};
  const auto values = normal(whole.rows * whole.columns, 3);
  const auto all = quantized(values, whole, dynamic_map(true));
  for (int64_t from = 0; from < whole.down(); ++from) {
    Tiling part = whole;
    const int64_t first = from * whole.tile_rows;
    part.rows = whole.rows - first;
    const auto mine =
        quantized({values.begin() + first * whole.columns, values.end()}, part, dynamic_map(true));
    EXPECT_TRUE(std::equal(mine.codes.begin(), mine.codes.end(), all.codes.begin() + first * whole.columns));
    EXPECT_TRUE(
        std::equal(mine.scales.begin(), mine.scales.end(), all.scales.begin() + from * whole.across()));
  }
}

// Catches: a tile of zeros that becomes NaN, a NaN that vanishes, what comes back as another value.
TEST(TilesTest, ZerosAndNansComeBack) {
  const Tiling t{2, 4, 1, 2};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values{0, -0.0F, nan, 1, 2, -2, 0.5F, 0.25F};
  const auto q = quantized(values, t, dynamic_map(true));
  std::vector<float> back(values.size());
  dequantize_tiles(q.codes.data(), q.scales.data(), t, dynamic_map(true), back.data());
  EXPECT_EQ(back[0], 0);
  EXPECT_EQ(back[1], 0);
  EXPECT_TRUE(std::isnan(back[2]) && std::isnan(back[3]));
  EXPECT_EQ(back[4], 2);
  EXPECT_EQ(back[6], 0.5F);
}

// Each code is that of the formula, of tiles with edges, without a value, and with what is no number.
// Catches: a half that is rounded up, a scale of a neighbour's tile, a code of -128.
TEST(TilesTest, EvenlySpacedCodesAreTheNearest) {
  const Tiling tiling{5, 7, 2, 3};
  auto values = normal(tiling.numel(), 5);
  const float special[] = {0.0F, -0.0F, 1.5F, -1.5F, 127.0F};  // halves of a scale of 1: of the first tile
  values[0] = special[4];
  values[1] = special[2];
  values[2] = special[3];
  values[7] = 0.5F;
  values[8] = 2.5F;
  values[9] = -0.5F;
  for (const int64_t e : {3, 4, 5, 10, 11, 12}) values[static_cast<size_t>(e)] = special[e % 2];
  values[34] = std::numeric_limits<float>::quiet_NaN();
  values[28] = std::numeric_limits<float>::infinity();
  std::vector<int8_t> codes(values.size());
  std::vector<float> scales(static_cast<size_t>(tiling.count())), back(values.size());
  quantize_int8(values.data(), tiling, codes.data(), scales.data());
  dequantize_int8(codes.data(), scales.data(), tiling, back.data());
  EXPECT_EQ(scales[0], 1);
  EXPECT_EQ((std::vector<int>{codes[0], codes[1], codes[2], codes[7], codes[8], codes[9]}),
            (std::vector<int>{127, 2, -2, 0, 2, 0}));
  EXPECT_EQ(scales[1], 0);
  for (const int64_t e : {3, 4, 5, 10, 11, 12}) EXPECT_EQ(back[static_cast<size_t>(e)], 0) << e;
  EXPECT_TRUE(std::isnan(back[34]));
  EXPECT_TRUE(std::isnan(back[28]));
  for (int64_t r = 0; r < tiling.rows; ++r)
    for (int64_t c = 0; c < tiling.columns; ++c) {
      const auto e = static_cast<size_t>(r * tiling.columns + c);
      const float scale = scales[static_cast<size_t>(r / 2 * tiling.across() + c / 3)];
      if (!std::isfinite(scale) || scale == 0) continue;
      EXPECT_LE(std::fabs(values[e] / scale - static_cast<float>(codes[e])), 0.5F) << e;
      EXPECT_EQ(back[e], static_cast<float>(codes[e]) * scale) << e;
    }
}

}  // namespace
}  // namespace lockstep
