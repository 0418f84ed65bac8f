// SPDX-License-Identifier: Apache-2.0
// Makers of matrix products. The second operand is asked for by the shape that the first one has.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

Want like(const Builder& b, Ref x, Shape shape) {
  return {.dtypes = bit_of(b.dtype(x)), .shape = std::move(shape)};
}

// Of sums of `inner` products; one element of x reaches `right` results, one of y reaches `left`.
Growth products(const Builder& b, Ref x, Ref y, int64_t inner, int64_t left, int64_t right) {
  const auto times = [](int64_t n) { return Magnitude{static_cast<double>(std::max<int64_t>(n, 1)), 0}; };
  return {b.magnitude(x) * b.magnitude(y) * times(inner),
          {b.magnitude(y) * times(right), b.magnitude(x) * times(left)},
          true};
}

// Of matrices, or batches of them.
Growth products(const Builder& b, Ref x, Ref y) {
  return products(b, x, y, b.tensor(x).size(-1), b.tensor(x).size(-2), b.tensor(y).size(-1));
}

std::pair<Ref, Ref> factors(Builder& b, const OpTemplate& op, int64_t dims) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = dims, .max_dims = dims});
  auto shape = b.shape(x);
  shape.back() = -1;
  shape[shape.size() - 2] = b.tensor(x).size(-1);
  return {x, b.operand(like(b, x, shape))};
}

// beta * c + alpha * product, c first.
bool add_to(Builder& b, const OpTemplate& op, Ref c, Ref x, Ref y) {
  auto growth = products(b, x, y);
  const bool plain = b.settings().integer_lane || !c10::isFloatingType(b.dtype(x)) || b.random().chance(60);
  growth.result = growth.result + b.magnitude(c);
  const double elements =
      static_cast<double>(std::max<int64_t>(b.tensor(x).numel() * b.tensor(y).numel(), 1));
  growth.factors.insert(growth.factors.begin(), {elements, 0});
  if (plain) return b.call(op.op, {c, x, y}, growth);
  return b.call(op.op,
                {c, x, y, b.random().pick<double>({0.5, 1.0, 0.0}), b.random().pick<double>({2.0, -0.5})},
                growth);
}

// What a product is added to in place: apart from its factors.
Ref written(Builder& b, Ref x, Ref y, Shape shape) {
  auto want = like(b, x, std::move(shape));
  want.apart = {x, y};
  return b.target(want);
}

}  // namespace

// Two dimensions, or three of which the first is a batch.
bool mm(Builder& b, const OpTemplate& op) {
  const auto [x, y] = factors(b, op, 2);
  return b.call(op.op, {x, y}, products(b, x, y));
}

bool bmm(Builder& b, const OpTemplate& op) {
  const auto [x, y] = factors(b, op, 3);
  return b.call(op.op, {x, y}, products(b, x, y));
}

bool addmm(Builder& b, const OpTemplate& op) {
  const auto [x, y] = factors(b, op, 2);
  const auto m = b.tensor(x).size(0), n = b.tensor(y).size(1);
  if (op.in_place()) return add_to(b, op, written(b, x, y, {m, n}), x, y);
  const auto shape =
      b.random().weighted<Shape>({{8, {n}}, {8, {m, n}}, {1, {1}}, {1, {m, 1}}, {1, {1, n}}, {1, {}}});
  return add_to(b, op, b.operand(like(b, x, shape)), x, y);
}

bool baddbmm(Builder& b, const OpTemplate& op) {
  const auto [x, y] = factors(b, op, 3);
  const auto batch = b.tensor(x).size(0), m = b.tensor(x).size(1), n = b.tensor(y).size(2);
  if (op.in_place()) return add_to(b, op, written(b, x, y, {batch, m, n}), x, y);
  const Shape shape = b.random().chance(30) ? Shape{m, n} : Shape{batch, m, n};
  return add_to(b, op, b.operand(like(b, x, shape)), x, y);
}

bool dot(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .max_dims = 1});
  const auto k = b.tensor(x).size(0);
  const Ref y = b.operand(like(b, x, {k}));
  return b.call(op.op, {x, y}, products(b, x, y, k, 1, 1));
}

bool mv(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2});
  const auto m = b.tensor(x).size(0), k = b.tensor(x).size(1);
  const Ref y = b.operand(like(b, x, {k}));
  return b.call(op.op, {x, y}, products(b, x, y, k, m, 1));
}

bool linear(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3});
  const auto k = b.tensor(x).size(-1), rows = b.tensor(x).numel();
  const Ref w = b.operand(like(b, x, {-1, k}));
  const auto n = b.tensor(w).size(0);
  auto growth = products(b, x, w, k, rows, n);
  if (b.random().chance(50)) return b.call(op.op, {x, w, None{}}, growth);
  const Ref bias = b.operand(like(b, x, {n}));
  growth.result = growth.result + b.magnitude(bias);
  growth.factors.push_back({static_cast<double>(std::max<int64_t>(rows, 1)), 0});
  return b.call(op.op, {x, w, bias}, growth);
}

bool matmul(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3});
  const auto k = b.tensor(x).size(-1), batch = b.ndim(x) == 3 ? b.tensor(x).size(0) : 1;
  const Shape shape = b.ndim(x) == 3 && b.random().chance(50) ? Shape{batch, k, -1} : Shape{k, -1};
  const Ref y = b.operand(like(b, x, shape));
  return b.call(op.op, {x, y}, products(b, x, y, k, b.tensor(x).numel(), b.tensor(y).size(-1)));
}

}  // namespace lockstep::generators
