// SPDX-License-Identifier: Apache-2.0
// Makers of ops that read and write by index, and of those that join tensors. Indices cross the borders of
// shards.
#include "engine/values/as_size.h"
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Indices in [0, n), as many as the shape has elements.
Ref indices(Builder& b, Shape shape, int64_t n) {
  return b.fresh({.dtypes = kI64, .shape = std::move(shape), .values = indices_below(n)});
}

// A list of indices, one for each of the first dimensions, and the shape of what it picks; undefined, a
// dimension stays as it is.
struct Indexed {
  std::vector<Ref> list;
  Shape shape;
};

// Where the list has a gap, what is picked comes first.
Shape picked(const Builder& b, const Shape& of, const std::vector<Ref>& list) {
  Shape common, shape;
  size_t first = list.size(), count = 0;
  for (size_t d = 0; d < list.size(); ++d) {
    if (list[d].id < 0) continue;
    common = broadcast(common, b.shape(list[d]));
    first = std::min(first, d);
    ++count;
  }
  for (size_t d = 0; d < of.size(); ++d)
    if (d >= list.size() || list[d].id < 0) shape.push_back(of[d]);
  const size_t at = list.size() - first == count ? first : 0;
  shape.insert(shape.begin() + static_cast<int64_t>(at), common.begin(), common.end());
  return shape;
}

// Of one or two dimensions, which broadcast against each other, counted from either end. `apart`: at most one
// index, where writes must not collide.
Indexed draw_indices(Builder& b, Ref x, bool apart) {
  auto& random = b.random();
  const auto shape = b.shape(x);
  const auto reach = random.weighted<size_t>({{11, 1}, {7, 2}, {2, 3}});
  const int64_t n = apart ? 1 : random.between(1, 5), rows = apart ? 1 : random.between(1, 2);
  const Shape common = random.chance(30) ? Shape{rows, n} : Shape{n};
  const auto draw = [&](int64_t size) {
    const auto of = random.chance(30) ? draw_broadcastable(random, common) : common;
    const oracle::Values values{
        .kind = oracle::ValueKind::kIndex, .low = random.chance(35) ? -size : 0, .high = size - 1};
    return b.fresh({.dtypes = kI64, .shape = of, .values = values});
  };
  std::vector<Ref> list(std::min(shape.size(), reach), Ref{-1});
  for (size_t d = 0; d < list.size(); ++d)
    if (d + 1 == list.size() || random.chance(50)) list[d] = draw(shape[d]);
  return {list, picked(b, shape, list)};
}

// A mask of the first dimension, or of the first two.
std::vector<Ref> mask_list(Builder& b, Ref x) {
  auto shape = b.shape(x);
  shape.resize(std::min<size_t>(shape.size(), b.random().chance(60) ? 1 : 2));
  return {b.operand({.dtypes = kBool, .shape = shape})};
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
  Shape places = {std::min<int64_t>(draw_size(b.random(), b.settings().mesh), 12)};
  if (b.random().chance(10)) places.clear();  // one place
  const Ref index = indices(b, places, b.tensor(x).size(dim));
  return b.call(op.op, {x, dim, index}, reaching(b, x, b.tensor(index).numel()), false);
}

bool index(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  if (!b.settings().backward && b.random().chance(15)) return b.call_unsized(op.op, {x, mask_list(b, x)});
  const auto indexed = draw_indices(b, x, false);
  return b.call(op.op, {x, indexed.list}, reaching(b, x, 64));
}

// What values choose, and how much of it.
bool by_values(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = false});
  if (std::string_view(op.op) == "aten::nonzero") return b.call_unsized(op.op, {x});
  const Ref mask = b.operand({.dtypes = kBool, .shape = b.shape(x), .broadcasts = b.random().chance(40)});
  return b.call_unsized(op.op, {x, mask});
}

bool index_put(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const bool adds = b.random().chance(50), masks = b.random().chance(15);
  const auto indexed = masks ? Indexed{mask_list(b, x), {}} : draw_indices(b, x, !adds);
  if (op.in_place()) {
    std::vector<int64_t> all;
    for (int64_t d = 0; d < b.ndim(x); ++d) all.push_back(d);
    x = b.unsharded(x, all, true);
  }
  Want want{.dtypes = bit_of(b.dtype(x)), .shape = indexed.shape, .broadcasts = b.random().chance(40)};
  if (op.in_place()) want.apart = {x};
  const Ref values = b.operand(want);
  const auto elements = masks ? b.tensor(x).numel() : numel(indexed.shape);
  const auto count = Magnitude{static_cast<double>(std::max<int64_t>(elements, 1)), 0};
  // One that is broadcast is the term of many elements, or read by them.
  return b.call(op.op, {x, indexed.list, values, adds},
                {b.magnitude(x) + b.magnitude(values) * count, {{}, count}});
}

bool index_fill(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  if (op.in_place()) x = b.unsharded(x, {dim}, true);
  const Ref index = indices(b, {b.random().between(0, 4)}, b.tensor(x).size(dim));
  if (std::string_view(op.op).ends_with("Scalar"))
    return b.call(op.op, {x, dim, index, draw_number(b, b.dtype(x))}, {larger(b.magnitude(x), {3, 0}), {}});
  const Ref value = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{}, .grad = false});
  return b.call(op.op, {x, dim, index, value}, {larger(b.magnitude(x), b.magnitude(value)), {}});
}

bool index_add(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  const auto n = b.random().between(1, 5);
  const Ref index = indices(b, {n}, b.tensor(x).size(dim));
  auto shape = b.shape(x);
  shape[static_cast<size_t>(dim < 0 ? dim + b.ndim(x) : dim)] = n;
  const Ref source = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = shape});
  const Magnitude count{static_cast<double>(n), 0};
  return b.call(op.op, {x, dim, index, source}, {b.magnitude(x) + b.magnitude(source) * count, {}});
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
  const std::string_view name(op.op);
  const bool value = name.find(".value") != name.npos, adds = name.find("add") != name.npos;
  const bool grad = !(op.traits & kNoHistory);
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 1, .least = 1, .grad = grad});
  const auto dim = b.random().below(b.ndim(x));
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
  const auto with_reduction = [&](std::vector<Arg> args) {
    if (name.ends_with("reduce")) args.emplace_back(std::string(b.random().chance(50) ? "add" : "multiply"));
    return args;
  };
  if (value) {
    const Growth growth{larger(b.magnitude(x), {3, 0}), {}};
    return b.call(op.op, with_reduction({x, dim, index, draw_number(b, b.dtype(x))}), growth);
  }
  Want want{.dtypes = bit_of(b.dtype(x)), .shape = shape, .grad = grad};
  if (op.in_place()) want.apart = {x};
  const Ref source = b.operand(want);
  const auto count = static_cast<double>(adds ? std::max<int64_t>(shape[static_cast<size_t>(dim)], 1) : 1);
  const Growth growth{b.magnitude(x) + b.magnitude(source) * Magnitude{count, 0}, {}};
  return b.call(op.op, with_reduction({x, dim, index, source}), growth);
}

// A table whose rows each rank has in several pieces.
Ref interleaved_table(Builder& b, const OpTemplate& op) {
  const auto& mesh = b.settings().mesh;
  const auto d = b.random().below(mesh.ndim()), parts = b.random().between(2, 3);
  const auto target = placed_along(mesh, d, InterleavedShard{0, parts});
  const Shape shape = {parts * mesh.size(d) * b.random().between(1, 2), b.random().between(1, 3)};
  return b.fresh({.dtypes = op.dtypes, .shape = shape, .placement = target});
}

bool embedding(Builder& b, const OpTemplate& op) {
  const bool cut = (b.settings().placements & kInterleaved) && !b.is_outside() && b.random().chance(35);
  const Ref weight = cut ? interleaved_table(b, op)
                         : b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .least = 1});
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
