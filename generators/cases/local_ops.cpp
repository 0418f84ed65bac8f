// SPDX-License-Identifier: Apache-2.0
// Ops on the local tensors of every rank: of lists, of the terms of a sum, in place.
#include "generators/cases/edges.h"
#include "generators/ops/makers.h"
#include "oracle/program/statements.h"

namespace lockstep::generators {
namespace {

using oracle::Target;

// Where the slices of a tensor are boxes, from left to right.
Target draw_slices(Builder& b, Ref x) {
  auto target = draw_target(b.random(), b.settings().mesh, b.shape(x), b.dtype(x),
                            b.settings().placements & ~(kPartials | kRagged));
  target.order.clear();
  return target;
}

// The same, and terms of a sum over one mesh dimension.
Target draw_terms(Builder& b, Ref x) {
  auto target = draw_slices(b, x);
  target.placements[static_cast<size_t>(b.random().below(std::ssize(target.placements)))] = Partial{};
  return target;
}

// How the gradient of a local tensor lies: that of a term is the gradient of the sum.
Target gradient_of(Target in) {
  for (auto& p : in.placements)
    if (is_partial(p)) p = Replicate{};
  return in;
}

// Every operand lies as `in` says.
bool map(Builder& b, const char* op, std::vector<Arg> args, size_t operands, const Target& in,
         const Target& out, const Shape& shape, const Growth& growth) {
  args.insert(args.begin(), std::string(op));
  for (; operands > 0; --operands) args.insert(args.end(), {in, gradient_of(in)});
  args.insert(args.end(), {out, shape});
  return b.call(oracle::kLocalMap.data(), std::move(args), growth);
}

Ref draw_wide(Builder& b) {
  return b.operand({.dtypes = kWide, .min_dims = 1});
}
Ref another_like(Builder& b, Ref x) {
  return b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)});
}

// A multiple by a positive number, which keeps the signs of zeros, however they are added up.
Growth doubled(const Builder& b, Ref x) {
  return {b.magnitude(x) * magnitude_of(2.0), {magnitude_of(2.0)}};
}

}  // namespace

void join_locals(Builder& b) {
  std::vector<Ref> list = {draw_wide(b)};
  for (int64_t more = b.random().between(0, 2); more > 0; --more) list.push_back(another_like(b, list[0]));
  const auto in = b.random().chance(25) ? draw_terms(b, list[0]) : draw_slices(b, list[0]);
  auto shape = b.shape(list[0]);
  const auto last = std::ssize(shape) - 1;
  Growth growth{b.magnitude(list[0]), {}};
  for (const Ref ref : list) growth.result = larger(growth.result, b.magnitude(ref));
  // Along a dimension that no rank has a part of.
  if (!shards(in, last) && b.random().chance(70)) {
    shape.back() *= std::ssize(list);
    map(b, "aten::cat", {list, last}, list.size(), in, in, shape, growth);
  } else {
    shape.push_back(std::ssize(list));
    map(b, "aten::stack", {list, last + 1}, list.size(), in, in, shape, growth);
  }
}

oracle::Target pending_where_cut(const oracle::Target& in) {
  auto target = in;
  for (auto& p : target.placements) p = distributes(p) ? Placement(Partial{}) : p;
  return target;
}

void map_terms(Builder& b) {
  const Ref x = draw_wide(b);
  const auto in = draw_terms(b, x);
  const auto kind = b.random().below(b.settings().integer_lane ? 3 : 4);
  if (kind == 0) {
    const Magnitude count{static_cast<double>(std::max<int64_t>(b.tensor(x).numel(), 1)), 0};
    map(b, "aten::sum", {x, None{}}, 1, in, pending_where_cut(in), {}, {b.magnitude(x) * count, {}});
  } else if (kind == 1) {
    map(b, "aten::mul.Scalar", {x, int64_t{2}}, 1, in, in, b.shape(x), doubled(b, x));
  } else if (kind == 2) {
    const Ref y = another_like(b, x);
    map(b, "aten::add.Tensor", {x, y, int64_t{1}}, 2, in, in, b.shape(x),
        {b.magnitude(x) + b.magnitude(y), {}});
  } else {
    map(b, "aten::neg", {x}, 1, in, in, b.shape(x), {});
  }
}

void write_locals(Builder& b) {
  const Ref x = draw_wide(b);
  const auto kind = b.random().below(b.settings().integer_lane ? 3 : 4);
  const auto in = kind != 1 && kind != 3 && b.random().chance(25) ? draw_terms(b, x) : draw_slices(b, x);
  if (kind == 0) {
    map(b, "aten::mul_.Scalar", {x, int64_t{2}}, 1, in, in, b.shape(x), doubled(b, x));
  } else if (kind == 1) {
    map(b, "aten::add_.Scalar", {x, int64_t{3}, int64_t{1}}, 1, in, in, b.shape(x),
        {b.magnitude(x) + magnitude_of(3.0), {}});
  } else if (kind == 2) {
    const Ref y = another_like(b, x);
    map(b, "aten::add_.Tensor", {x, y, int64_t{1}}, 2, in, in, b.shape(x),
        {b.magnitude(x) + b.magnitude(y), {}});
  } else {
    map(b, "aten::sigmoid_", {x}, 1, in, in, b.shape(x), {});
  }
}

}  // namespace lockstep::generators
