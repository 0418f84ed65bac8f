// SPDX-License-Identifier: Apache-2.0
// What optimizers need that libtorch lacks (kernels/operators): tiles of one scale each, of which rows stay
// on one rank and the scales go with them, and matrices that one rank has as a whole.
#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "engine/layout/layout.h"
#include "engine/ops/rules/families.h"
#include "engine/values/as_size.h"
#include "engine/values/ragged.h"

namespace lockstep::rules {
namespace {

using torch::jit::Stack;
using Shape = std::vector<int64_t>;

// Rows and columns of a tile, which ends where the matrix does.
std::array<int64_t, 2> tile_of(const OpCall& call) {
  const auto& shape = call.inputs[0].shape;
  const auto within = [](int64_t tile, int64_t extent) {
    return std::min(tile, std::max<int64_t>(extent, 1));
  };
  return {within(call.integer("tile_rows"), shape[shape.size() - 2]),
          within(call.integer("tile_columns"), shape.back())};
}

// The row of tiles that begins with this element of the matrices; nullopt: none does.
std::optional<int64_t> row_of_tiles(int64_t element, const Shape& shape, int64_t tile_rows) {
  const int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  const int64_t within = element % (rows * columns);
  if (within % (tile_rows * columns) != 0) return std::nullopt;
  return element / (rows * columns) * ((rows + tile_rows - 1) / tile_rows) + within / (tile_rows * columns);
}

// How the scales are cut where the matrices are; nullopt: within a tile. Where tiles divide the rows, or one
// rank has all of them, both are cut in the same proportion, whatever other mesh dimensions leave.
std::optional<Placement> of_scales(const RaggedShard& ragged, const Shape& shape, int64_t tile_rows) {
  if (ragged.dims.empty()) return ragged;
  const int64_t elements = c10::multiply_integers(shape), blocks = block_count(ragged);
  if (ragged.lists > 1 || elements == 0 || elements % blocks != 0) return std::nullopt;
  RaggedShard scales{up_to(std::ssize(shape) - 1), {}, 1};
  int64_t end = 0, rows = 0, common = 0;
  for (const int64_t units : ragged.units) {
    end += units * (elements / blocks);
    const auto border = row_of_tiles(end, shape, tile_rows);
    if (!border) return std::nullopt;
    scales.units.push_back(*border - rows);
    common = std::gcd(common, scales.units.back());
    rows = *border;
  }
  const bool is_one = std::count(scales.units.begin(), scales.units.end(), 0) + 1 == std::ssize(scales.units);
  if (is_one || shape[shape.size() - 2] % tile_rows == 0)
    for (int64_t& units : scales.units) units /= common;
  return scales;
}

// Input 0 is of the matrices' shape; the scales are another input, or output 1.
Rows in_tiles(const OpCall& call, bool quantizes) {
  const auto& shape = call.inputs[0].shape;
  const int64_t last = std::ssize(shape) - 1;
  const auto tile = tile_of(call);
  Rows rows;
  const auto add = [&](const Placement& matrices, const Placement& scales, std::vector<InputDim> even) {
    auto row = row_of(call, matrices, matrices);
    (quantizes ? row.outputs : row.inputs)[1] = scales;
    row.even = std::move(even);
    rows.push_back(std::move(row));
  };
  for (int64_t dim = 0; dim + 1 < last; ++dim) add(Shard{dim}, Shard{dim}, {});
  for (int64_t dim = last - 1; dim <= last; ++dim) {
    const int64_t extent = call.input_extents[0][as_size(dim)];
    const int64_t each = (extent + call.mesh_size - 1) / call.mesh_size;
    if (each % tile[as_size(dim + 1 - last)] != 0 && each < extent) continue;
    // What another mesh dimension has cut is as long on all of its ranks only if both divide it.
    const bool again = extent < shape[as_size(dim)];
    add(Shard{dim}, Shard{dim}, again ? std::vector<InputDim>{{0, dim}} : std::vector<InputDim>{});
  }
  if (const auto* ragged = std::get_if<RaggedShard>(&call.current[0]))
    if (const auto scales = of_scales(*ragged, shape, tile[0])) add(*ragged, *scales, {});
  return rows;
}

Rows quantize_tiles(const OpCall& call) {
  return in_tiles(call, true);
}
Rows dequantize_tiles(const OpCall& call) {
  return in_tiles(call, false);
}

// One rank has all of it.
Rows newton_schulz(const OpCall& call) {
  const auto* ragged = std::get_if<RaggedShard>(&call.current[0]);
  if (ragged == nullptr ||
      std::count(ragged->units.begin(), ragged->units.end(), 0) + 1 != std::ssize(ragged->units))
    return {};
  return {row_of(call, *ragged, *ragged)};
}

bool has_flat(const LocalCall& c) {
  return c.inputs[0] != nullptr && is_flat(*c.inputs[0]);
}

// A flat local is whole rows of tiles: matrices, but for the first and the last one of several.
void on_rows_of_tiles(const LocalCall& c, Stack& stack) {
  if (!has_flat(c)) return c.op.callBoxed(stack);
  const auto tile = tile_of(c.call);
  std::vector<std::vector<at::Tensor>> parts(c.outputs.size());
  int64_t scales_before = 0;
  for (const auto& piece : pieces(owned_by(*c.inputs[0], c.position))) {
    const auto shape = piece.shape();
    auto scales = shape;
    for (size_t i = 0; i < 2; ++i) {
      auto& extent = scales[scales.size() - 2 + i];
      extent = (extent + tile[i] - 1) / tile[i];
    }
    auto arguments = stack;
    const auto take = [&](size_t input, int64_t start, const Shape& of) {
      arguments[input] = stack[input].toTensor().narrow(0, start, c10::multiply_integers(of)).view(of);
    };
    take(0, piece.start, shape);
    if (stack[1].isTensor()) take(1, scales_before, scales);
    scales_before += c10::multiply_integers(scales);
    c.op.callBoxed(arguments);
    for (size_t j = 0; j < parts.size(); ++j) parts[j].push_back(arguments[j].toTensor().flatten());
  }
  if (parts[0].empty()) return local::unless_empty(c, stack);
  stack.clear();
  for (const auto& of_output : parts)
    stack.emplace_back(of_output.size() == 1 ? of_output[0] : at::cat(of_output));
}

void on_whole_matrix(const LocalCall& c, Stack& stack) {
  if (!has_flat(c)) return c.op.callBoxed(stack);
  const auto flat = stack[0].toTensor();
  if (flat.numel() == 0) return local::unless_empty(c, stack);
  // It lies as the whole does on one device: a product of matrices rounds by that.
  const auto& shape = c.call.inputs[0].shape;
  auto matrix = at::empty_strided(shape, dense_stride(*c.inputs[0], shape), flat.options());
  stack[0] = matrix.is_contiguous() ? flat.view(shape) : matrix.copy_(flat.view(shape));
  c.op.callBoxed(stack);
  stack[0] = stack[0].toTensor().flatten();
}

}  // namespace

Records optim_ops() {
  const auto of_tiles = [](const char* name, RowsOf rows) {
    return OpEntry{.name = name, .rows = std::move(rows), .run = on_rows_of_tiles, .own_interleaved = true};
  };
  return {of_tiles("optim::dequantize_int8", dequantize_tiles),
          of_tiles("optim::dequantize_tiles", dequantize_tiles),
          {.name = "optim::newton_schulz", .rows = newton_schulz, .run = on_whole_matrix},
          of_tiles("optim::quantize_int8", quantize_tiles),
          of_tiles("optim::quantize_tiles", quantize_tiles)};
}

}  // namespace lockstep::rules
