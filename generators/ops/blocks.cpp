// SPDX-License-Identifier: Apache-2.0
// Makers of what looks at tiles or whole matrices: optimizers that RaggedShard is for.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

std::pair<int64_t, int64_t> tile(Builder& b) {
  auto& random = b.random();
  return {random.between(1, 3), random.between(1, 3)};
}

// One for each tile of the codes.
Ref scales_of(Builder& b, const OpTemplate& op, Ref codes, int64_t rows, int64_t columns) {
  auto shape = b.shape(codes);
  const size_t last = shape.size() - 1;
  shape[last - 1] = (shape[last - 1] + rows - 1) / rows;
  shape[last] = (shape[last] + columns - 1) / columns;
  return b.fresh({.dtypes = op.dtypes, .shape = shape, .grad = false});
}

}  // namespace

bool quantize_tiles(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .grad = false});
  const auto [rows, columns] = tile(b);
  return emit(b, op, {x, b.random().chance(50), rows, columns}, {x});
}

bool dequantize_tiles(Builder& b, const OpTemplate& op) {
  const oracle::Values any{.kind = oracle::ValueKind::kIntegers, .low = 0, .high = 255};
  const Ref codes = b.fresh({.dtypes = kU8, .min_dims = 2, .values = any, .grad = false});
  const auto [rows, columns] = tile(b);
  const Ref scales = scales_of(b, op, codes, rows, columns);
  return emit(b, op, {codes, scales, b.random().chance(50), rows, columns}, {scales});
}

bool quantize_int8(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .grad = false});
  const auto [rows, columns] = tile(b);
  return emit(b, op, {x, rows, columns}, {x});
}

bool dequantize_int8(Builder& b, const OpTemplate& op) {
  const oracle::Values any{.kind = oracle::ValueKind::kIntegers, .low = -127, .high = 127};
  const Ref codes = b.fresh({.dtypes = kI8, .min_dims = 2, .values = any, .grad = false});
  const auto [rows, columns] = tile(b);
  const Ref scales = scales_of(b, op, codes, rows, columns);
  return emit(b, op, {codes, scales, rows, columns}, {scales});
}

bool newton_schulz(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .grad = false});
  return emit(
      b, op,
      {x, std::vector<double>{3.4445, -4.775, 2.0315}, b.random().between(0, 5), 1e-7, b.random().chance(50)},
      {x});
}

}  // namespace lockstep::generators
