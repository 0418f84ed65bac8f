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

}  // namespace

bool index_select(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  const Ref index =
      indices(b, {std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 12)}, b.tensor(x).size(dim));
  return b.call(op.op, {x, dim, index}, reaching(b, x, b.tensor(index).numel()), false);
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
  if (op.in_place()) want.apart = x;
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
  std::vector<Ref> list = {x};
  for (int64_t more = b.random().between(1, 3); more > 0; --more) {
    auto shape = b.shape(x);
    shape[static_cast<size_t>(dim)] = -1;
    list.push_back(b.operand({.dtypes = bit_of(b.dtype(x)), .shape = shape}));
  }
  b.random().shuffle(list);
  Growth growth{b.magnitude(x), {}};
  for (const auto ref : list) growth.result = larger(growth.result, b.magnitude(ref));
  return b.call(op.op, {list, dim}, growth, false);
}

bool stack(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .max_dims = 2});
  std::vector<Ref> list = {x};
  for (int64_t more = b.random().between(0, 2); more > 0; --more)
    list.push_back(b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)}));
  Growth growth{b.magnitude(x), {}};
  for (const auto ref : list) growth.result = larger(growth.result, b.magnitude(ref));
  return b.call(op.op, {list, b.random().between(0, b.ndim(x))}, growth, false);
}

bool triangle(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 2});
  if (op.in_place()) x = b.unsharded(x, {-2, -1}, true);  // the diagonal runs through the whole matrix
  return emit(b, op, {x, b.random().between(-2, 2)}, {x});
}

}  // namespace lockstep::generators
