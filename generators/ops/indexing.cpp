// SPDX-License-Identifier: Apache-2.0
// Makers of ops that read and write by index, and of those that join tensors. Indices cross the borders of
// shards.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Indices in [0, n), as many as the shape has elements.
Ref indices(Builder& b, Shape shape, int64_t n) {
  return b.fresh({.dtypes = kI64, .shape = std::move(shape), .values = indices_below(n)});
}

// For one of the first two dimensions, or both. `apart`: at most one index, where writes must not collide.
std::vector<Ref> index_list(Builder& b, const Shape& shape, bool apart = false) {
  const int64_t n = apart ? 1 : b.random().between(1, 5);
  const size_t last = std::min<size_t>(shape.size(), b.random().chance(40) ? 2 : 1) - 1;
  std::vector<Ref> list(last, Ref{-1});
  if (last > 0 && b.random().chance(50)) list[0] = indices(b, {n}, shape[0]);
  list.push_back(indices(b, {n}, shape[last]));
  return list;
}

Growth reaching(const Builder& b, Ref x, int64_t elements) {
  return {b.magnitude(x), {{static_cast<double>(std::max<int64_t>(elements, 1)), 0}}};
}

// An index shape for gather and scatter along `dim`: free there, elsewhere at most what `limit` has.
Shape index_shape(Builder& b, const Shape& limit, size_t dim) {
  Shape shape = limit;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d == dim)
      shape[d] = std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 8);
    else if (b.random().chance(30))
      shape[d] = b.random().between(0, shape[d]);
  }
  return shape;
}

// Of one dtype, as what is joined mostly is, or of several, whose result is promoted.
uint32_t dtypes_beside(Builder& b, const OpTemplate& op, Ref x) {
  return b.random().chance(65) ? bit_of(b.dtype(x)) : op.dtypes;
}

Growth joined(const Builder& b, const std::vector<Ref>& list) {
  Growth growth{b.magnitude(list[0]), {}};
  for (const auto ref : list) growth.result = larger(growth.result, b.magnitude(ref));
  return growth;
}

}  // namespace

bool index_select(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  const Ref index =
      indices(b, {std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 12)}, b.tensor(x).size(dim));
  return b.call(op.op, {x, dim, index}, reaching(b, x, b.tensor(index).numel()), false);
}

// A list of indices, one for each of the first dimensions; undefined, a dimension stays as it is.
bool index(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto list = index_list(b, b.shape(x));
  return b.call(op.op, {x, list}, reaching(b, x, 64));
}

bool index_put(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const bool adds = b.random().chance(50);
  const auto list = index_list(b, b.shape(x), !adds);
  Shape shape = b.shape(x);
  for (size_t d = 0; d < list.size(); ++d)
    if (list[d].id >= 0) shape[d] = b.tensor(list[d]).numel();
  const Ref values = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = shape});
  const auto count = Magnitude{static_cast<double>(std::max<int64_t>(numel(shape), 1)), 0};
  return b.call(op.op, {x, list, values, adds}, {b.magnitude(x) + b.magnitude(values) * count, {}});
}

bool index_fill(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  const Ref index = indices(b, {b.random().between(0, 4)}, b.tensor(x).size(dim));
  if (std::string_view(op.op).ends_with("Scalar"))
    return b.call(op.op, {x, dim, index, draw_number(b, b.dtype(x))}, {larger(b.magnitude(x), {3, 0}), {}});
  const Ref value = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{}, .grad = false});
  return b.call(op.op, {x, dim, index, value}, {larger(b.magnitude(x), b.magnitude(value)), {}});
}

bool pad(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  std::vector<int64_t> widths;
  for (int64_t d = b.random().between(1, b.ndim(x)); d > 0; --d)
    for (int side = 0; side < 2; ++side) widths.push_back(b.random().between(0, 2));
  return emit(b, op, {x, widths}, {x});
}

bool roll(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const auto shift = b.random().between(-4, 4);
  if (b.random().chance(25)) return emit(b, op, {x, Shape{shift}}, {x});
  return emit(b, op, {x, Shape{shift}, Shape{draw_dim(b, b.ndim(x))}}, {x});
}

bool flip(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  return emit(b, op, {x, Shape{draw_dim(b, b.ndim(x))}}, {x});
}

bool gather(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = b.random().below(b.ndim(x));
  const Ref index = indices(b, index_shape(b, b.shape(x), static_cast<size_t>(dim)), b.tensor(x).size(dim));
  return b.call(op.op, {x, dim, index}, reaching(b, x, b.tensor(index).numel()));
}

bool scatter(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = b.random().below(b.ndim(x));
  const std::string_view name(op.op);
  const bool value = name.ends_with("value"), adds = name.find("add") != name.npos;
  auto shape = index_shape(b, b.shape(x), static_cast<size_t>(dim));
  // Where writes may collide, one index along the dimension keeps the winner unambiguous.
  if (!adds) shape[static_cast<size_t>(dim)] = std::min<int64_t>(shape[static_cast<size_t>(dim)], 1);
  if (op.in_place()) {
    // What is written stays where it is: whole along `dim`, and where the index is shorter.
    std::vector<int64_t> whole = {dim};
    for (int64_t d = 0; d < b.ndim(x); ++d)
      if (shape[static_cast<size_t>(d)] != b.tensor(x).size(d)) whole.push_back(d);
    x = b.unsharded(x, whole, true);
  }
  const Ref index = indices(b, shape, b.tensor(x).size(dim));
  if (value) {
    const Growth growth{larger(b.magnitude(x), {3, 0}), {}};
    return b.call(op.op, {x, dim, index, draw_number(b, b.dtype(x))}, growth);
  }
  Want want{.dtypes = bit_of(b.dtype(x)), .shape = shape};
  if (op.in_place()) want.apart = {x};
  const Ref source = b.operand(want);
  const auto count = static_cast<double>(adds ? std::max<int64_t>(shape[static_cast<size_t>(dim)], 1) : 1);
  const Growth growth{b.magnitude(x) + b.magnitude(source) * Magnitude{count, 0}, {}};
  return b.call(op.op, {x, dim, index, source}, growth);
}

bool embedding(Builder& b, const OpTemplate& op) {
  const Ref weight = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .least = 1});
  const auto shape = draw_shape(b.random(), b.settings().mesh, b.random().between(1, 2), 24);
  const Ref index = indices(b, shape, b.tensor(weight).size(0));
  auto growth = reaching(b, weight, b.tensor(index).numel());
  return b.call(op.op, {weight, index}, growth);
}

bool cat(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const auto dim = b.random().below(b.ndim(x));
  const auto dtypes = dtypes_beside(b, op, x);
  std::vector<Ref> list = {x};
  for (int64_t more = b.random().between(1, 3); more > 0; --more) {
    auto shape = b.shape(x);
    shape[static_cast<size_t>(dim)] = -1;
    // An empty tensor of one dimension takes part without a dimension of its own, in its dtype alone.
    if (b.random().chance(8)) shape = {0};
    list.push_back(b.operand({.dtypes = dtypes, .shape = shape}));
  }
  b.random().shuffle(list);
  return b.call(op.op, {list, dim}, joined(b, list), false);
}

bool stack(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .max_dims = 2});
  const auto dtypes = dtypes_beside(b, op, x);
  std::vector<Ref> list = {x};
  for (int64_t more = b.random().between(0, 2); more > 0; --more)
    list.push_back(b.operand({.dtypes = dtypes, .shape = b.shape(x)}));
  return b.call(op.op, {list, b.random().between(0, b.ndim(x))}, joined(b, list), false);
}

bool triangle(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 2});
  if (op.in_place()) x = b.unsharded(x, {-2, -1}, true);  // the diagonal runs through the whole matrix
  return emit(b, op, {x, b.random().between(-2, 2)}, {x});
}

}  // namespace lockstep::generators
