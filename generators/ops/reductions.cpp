// SPDX-License-Identifier: Apache-2.0
// Makers of reductions, scans and sorts: over everything, over some dimensions, keeping them or not.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Extremes of nothing are errors; sums of nothing are not.
int64_t least_size(const OpTemplate& op) {
  const std::string_view name(op.op);
  for (const char* extreme : {"amax", "amin", "max", "min", "argmax", "argmin", "logsumexp", "topk"})
    if (name.substr(6).starts_with(extreme)) return 1;
  return 0;
}

// In the integer lane a mean is exact over 1, 2, 4 or 8 elements, and a product of ones only is small.
Ref reduced_operand(Builder& b, const OpTemplate& op, int64_t min_dims) {
  Want want{
      .dtypes = op.dtypes, .min_dims = min_dims, .least = least_size(op), .plain_zeros = op.orders_zeros()};
  // The derivative of a product over everything looks for zeros: its shapes depend on values.
  want.grad = std::string_view(op.op) != "aten::prod";
  if (b.settings().integer_lane && op.grow == Grow::kMean) {
    Shape shape;
    for (int64_t d = std::max(min_dims, b.random().below(4)); d > 0; --d)
      shape.push_back(b.random().pick<int64_t>({1, 2, 4, 8}));
    want.shape = shape;
  }
  if (op.grow == Grow::kPower && b.settings().integer_lane && !b.random().chance(20)) {
    want.values = oracle::Values{.kind = oracle::ValueKind::kIntegers, .low = -1, .high = 1};
    want.dtypes = op.dtypes & ~kBool;
  }
  return b.operand(want);
}

int64_t size_of(const Builder& b, Ref x, const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const auto dim : dims) product *= b.tensor(x).size(dim);
  return product;
}

std::vector<int64_t> draw_dims(Builder& b, int64_t ndim) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < ndim; ++d)
    if (b.random().chance(50)) dims.push_back(b.random().chance(20) ? d - ndim : d);
  if (dims.empty() && ndim > 0) dims.push_back(draw_dim(b, ndim));
  return dims;
}

}  // namespace

bool reduce_all(Builder& b, const OpTemplate& op) {
  const Ref x = reduced_operand(b, op, 0);
  return emit(b, op, {x}, {x}, b.tensor(x).numel());
}

bool reduce_dims(Builder& b, const OpTemplate& op) {
  const Ref x = reduced_operand(b, op, 1);
  const auto dims = draw_dims(b, b.ndim(x));
  return emit(b, op, {x, dims, b.random().chance(40)}, {x}, size_of(b, x, dims));
}

bool reduce_dim(Builder& b, const OpTemplate& op) {
  const Ref x = reduced_operand(b, op, 1);
  const auto dim = draw_dim(b, b.ndim(x));
  const std::string_view name(op.op);
  const bool all = (name == "aten::argmax" || name == "aten::argmin") && b.random().chance(25);
  return emit(b, op, {x, all ? Arg(None{}) : Arg(dim), !all && b.random().chance(40)}, {x},
              b.tensor(x).size(dim));
}

bool variance(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dims = draw_dims(b, b.ndim(x));
  const Arg over = b.random().chance(30) ? Arg(None{}) : Arg(dims);
  // Of one element there is only the uncorrected variance.
  const auto count = std::holds_alternative<None>(over) ? b.tensor(x).numel() : size_of(b, x, dims);
  if (std::string_view(op.op).ends_with(".dim"))
    return emit(b, op, {x, over, count > 1 && b.random().chance(60), b.random().chance(40)}, {x});
  return emit(b, op, {x, over, count > 1 ? b.random().pick<int64_t>({0, 1, 1}) : 0, b.random().chance(40)},
              {x});
}

double order_of_norm(Builder& b) {
  constexpr double kMost = std::numeric_limits<double>::infinity();
  return b.random().pick<double>(
      {2.0, 2.0, 2.0, 2.0, 1.0, 1.0, kMost, kMost, 3.0, 0.0, 0.5, -0.5, -2.0, -kMost});
}

bool norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const double order = order_of_norm(b);
  if (std::string_view(op.op) == "aten::norm.Scalar") return emit(b, op, {x, order}, {x});
  return emit(b, op, {x, order, draw_dims(b, b.ndim(x)), b.random().chance(40)}, {x});
}

bool vector_norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const Arg over = b.random().chance(30) ? Arg(None{}) : Arg(draw_dims(b, b.ndim(x)));
  return emit(b, op, {x, order_of_norm(b), over, b.random().chance(40)}, {x});
}

bool scan(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, {.dtypes = op.dtypes, .min_dims = 1, .grad = !(op.traits & kNoHistory)});
  const auto dim = draw_dim(b, b.ndim(x));
  if (op.in_place()) x = b.unsharded(x, {dim}, true);
  const auto n = b.tensor(x).size(dim);
  auto growth = grown(b, op, {x}, n);
  if (!growth.factors.empty()) growth.factors[0] = {static_cast<double>(std::max<int64_t>(n, 1)), 0};
  return b.call(op.op, {x, dim}, growth, !(op.traits & kLinear));
}

// Once or twice, of what may begin or end with more.
bool differences(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const auto more = [&]() -> Arg {
    if (!b.random().chance(25)) return None{};
    return b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x)});
  };
  const Arg before = more(), after = more();
  return emit(b, op, {x, b.random().between(1, 2), draw_dim(b, b.ndim(x)), before, after}, {x});
}

bool trapezoid(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1});
  const double dx = b.random().pick({1.0, 0.5, 3.0});
  return emit(b, op, {x, dx, draw_dim(b, b.ndim(x))}, {x});
}

bool correlation(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .max_dims = 2, .least = 2});
  return emit(b, op, {x}, {x});
}

bool sort(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .plain_zeros = op.orders_zeros()});
  const auto dim = draw_dim(b, b.ndim(x));
  const bool descending = b.random().chance(50);
  if (std::string_view(op.op).ends_with("stable")) return emit(b, op, {x, true, dim, descending}, {x});
  return emit(b, op, {x, dim, descending}, {x});
}

bool topk(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1, .plain_zeros = op.orders_zeros()});
  const auto dim = draw_dim(b, b.ndim(x));
  return emit(b, op, {x, b.random().between(1, b.tensor(x).size(dim)), dim, b.random().chance(50), true},
              {x});
}

}  // namespace lockstep::generators
