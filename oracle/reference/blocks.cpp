// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/blocks.h"

#include <ATen/ATen.h>

#include <cmath>

#include "kernels/operators/dynamic_map.h"

namespace lockstep::oracle {
namespace {

// The first of those that are nearest.
int64_t nearest(const DynamicMap& map, float value) {
  if (std::isnan(value)) return std::ssize(map) - 1;
  int64_t best = 0;
  for (int64_t i = 1; i < std::ssize(map); ++i)
    if (std::abs(map[static_cast<size_t>(i)] - value) < std::abs(map[static_cast<size_t>(best)] - value))
      best = i;
  return best;
}

int64_t tiles_of(int64_t extent, int64_t tile) {
  return extent / tile + (extent % tile > 0 ? 1 : 0);
}

at::Tensor as_matrices(const at::Tensor& all) {
  return all.reshape({-1, all.size(-2), all.size(-1)});
}

template <class F>
void for_tiles(const at::Tensor& matrices, const at::Tensor& scales, int64_t tile, const F& f) {
  for (int64_t m = 0; m < matrices.size(0); ++m)
    for (int64_t i = 0; i < scales.size(1); ++i)
      for (int64_t j = 0; j < scales.size(2); ++j)
        f(matrices[m].slice(0, i * tile, (i + 1) * tile).slice(1, j * tile, (j + 1) * tile), scales[m][i][j]);
}

}  // namespace

InTiles in_tiles(const at::Tensor& of, bool is_signed, int64_t tile) {
  if (of.numel() == 0) return {of.to(at::kByte), of};
  const auto& map = dynamic_map(is_signed);
  const auto matrices = as_matrices(of.contiguous());
  const auto scales =
      at::empty({matrices.size(0), tiles_of(of.size(-2), tile), tiles_of(of.size(-1), tile)}, at::kFloat);
  auto scaled = matrices.clone();
  for_tiles(scaled, scales, tile, [](const at::Tensor& values, const at::Tensor& scale) {
    scale.copy_(values.abs().amax());
    const float by = 1 / scale.item<float>();
    values.mul_(std::isinf(by) ? 0.0F : by);
  });
  auto codes = at::empty(scaled.sizes(), at::kByte);
  const auto* values = scaled.const_data_ptr<float>();
  for (int64_t i = 0; i < codes.numel(); ++i)
    codes.mutable_data_ptr<uint8_t>()[i] = static_cast<uint8_t>(nearest(map, values[i]));
  auto shape = of.sizes().vec();
  shape[shape.size() - 2] = scales.size(1);
  shape[shape.size() - 1] = scales.size(2);
  return {codes.view(of.sizes()), scales.view(shape)};
}

at::Tensor out_of_tiles(const InTiles& from, bool is_signed, int64_t tile) {
  if (from.codes.numel() == 0) return from.codes.to(at::kFloat);
  const auto& map = dynamic_map(is_signed);
  const auto entries = at::from_blob(const_cast<float*>(map.data()), {std::ssize(map)}, at::kFloat);
  const auto values =
      as_matrices(entries.index_select(0, from.codes.to(at::kLong).flatten()).view(from.codes.sizes()));
  for_tiles(values, as_matrices(from.scales), tile,
            [](const at::Tensor& of, const at::Tensor& scale) { of.mul_(scale.item<float>()); });
  return values.view(from.codes.sizes());
}

at::Tensor orthogonal(const at::Tensor& matrix, const std::array<double, 3>& coefficients, int64_t iterations,
                      double eps, bool in_float) {
  const bool turned = matrix.size(0) > matrix.size(1);
  auto x = matrix.to(in_float ? at::kFloat : at::kBFloat16, false, /*copy=*/true);
  if (turned) x = x.transpose(0, 1);
  x.div_(x.norm().clamp_min(eps));
  for (int64_t i = 0; i < iterations; ++i) {
    const auto square = x.matmul(x.transpose(0, 1));
    const auto both = at::addmm(square, square, square, coefficients[1], coefficients[2]);
    x = at::addmm(x, both, x, coefficients[0]);
  }
  return turned ? x.transpose(0, 1) : x;
}

}  // namespace lockstep::oracle
