// SPDX-License-Identifier: Apache-2.0
// Makers of the ops of networks: softmax, losses, norms, attention, convolution, dropout.
#include "generators/ops/makers.h"

namespace lockstep::generators {
namespace {

// Of the reductions none, mean, sum, as libtorch numbers them.
constexpr int64_t kReductionsNumbered = 3;

Want same_dtype(const Builder& b, Ref x, Shape shape) {
  return {.dtypes = bit_of(b.dtype(x)), .shape = std::move(shape)};
}

}  // namespace

bool softmax(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 1, .least = 1});
  const auto dim = draw_dim(b, b.ndim(x));
  if (std::string_view(op.op).starts_with("aten::_")) return emit(b, op, {x, dim, false}, {x});
  return emit(b, op, {x, dim}, {x});
}

bool nll_loss(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .least = 1});
  const auto rows = b.tensor(x).size(0), classes = b.tensor(x).size(1);
  const Ref target = b.fresh({.dtypes = kI64, .shape = Shape{rows}, .values = indices_below(classes)});
  const Arg weight =
      b.random().chance(30)
          ? Arg(b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{classes}, .grad = false}))
          : Arg(None{});
  const Arg ignored = b.random().chance(30) ? Arg(int64_t{0}) : Arg(int64_t{-100});
  return emit(b, op, {x, target, weight, b.random().below(kReductionsNumbered), ignored}, {x});
}

bool cross_entropy(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .least = 1});
  const Ref target = b.fresh(
      {.dtypes = kI64, .shape = Shape{b.tensor(x).size(0)}, .values = indices_below(b.tensor(x).size(1))});
  return emit(b, op, {x, target, None{}, b.random().below(kReductionsNumbered)}, {x});
}

bool mse_loss(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .least = 1});
  const Ref target = b.operand(same_dtype(b, x, b.shape(x)));
  return emit(b, op, {x, target, b.random().below(kReductionsNumbered)}, {x, target});
}

// Of images, with and without a batch.
bool pool(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  Shape shape = {random.between(1, 3), random.between(3, 6), random.between(3, 6)};
  if (random.chance(80))
    shape.insert(shape.begin(), std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 6));
  const Ref x = b.operand({.dtypes = op.dtypes, .shape = shape});
  const auto square = [](int64_t n) { return Shape{n, n}; };
  if (std::string_view(op.op) == "aten::_adaptive_avg_pool2d")
    return emit(b, op, {x, square(random.between(1, 3))}, {x});
  const auto kernel = random.between(1, 3), padding = random.between(0, kernel / 2);
  return emit(b, op, {x, square(kernel), square(random.between(1, 2)), square(padding)}, {x});
}

bool layer_norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3, .least = 1});
  const auto shape = b.shape(x);
  const Shape normalized(shape.end() - (b.ndim(x) == 3 && b.random().chance(25) ? 2 : 1), shape.end());
  const bool affine = b.random().chance(70);
  const Arg weight = affine ? Arg(b.operand(same_dtype(b, x, normalized))) : Arg(None{});
  const Arg bias =
      affine && b.random().chance(80) ? Arg(b.operand(same_dtype(b, x, normalized))) : Arg(None{});
  return emit(b, op, {x, normalized, weight, bias, 1e-5}, {x});
}

bool rms_norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3, .least = 1});
  const Shape normalized = {b.tensor(x).size(-1)};
  const Arg weight = b.random().chance(70) ? Arg(b.operand(same_dtype(b, x, normalized))) : Arg(None{});
  return emit(b, op, {x, normalized, weight, 1e-5}, {x});
}

bool attention(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  const auto batch = random.between(1, 3),
             heads = std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 8);
  const auto length = random.between(1, 5), width = random.pick<int64_t>({2, 4, 8});
  const Ref q = b.operand({.dtypes = op.dtypes, .shape = Shape{batch, heads, length, width}});
  const bool causal = random.chance(50);
  const auto keys = causal ? length : random.between(1, 6);
  const Want want = same_dtype(b, q, {batch, heads, keys, width});
  const Ref k = b.operand(want), v = b.operand(want);
  return emit(b, op, {q, k, v, None{}, 0.0, causal}, {q, k, v});
}

bool conv2d(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  const auto batch = std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 6),
             groups = random.weighted<int64_t>({{4, 1}, {1, 2}}), in = groups * random.between(1, 3);
  const auto side = random.between(3, 5), kernel = random.between(1, 3);
  const Ref x = b.operand({.dtypes = op.dtypes, .shape = Shape{batch, in, side, side + 1}});
  const Ref w = b.operand(same_dtype(b, x, {groups * random.between(1, 3), in / groups, kernel, kernel}));
  const Arg bias = random.chance(60) ? Arg(b.operand(same_dtype(b, x, {b.tensor(w).size(0)}))) : Arg(None{});
  const auto stride = random.between(1, 2), padding = random.between(0, 1);
  return emit(b, op, {x, w, bias, Shape{stride, stride}, Shape{padding, padding}, Shape{1, 1}, groups},
              {x, w});
}

bool dropout(Builder& b, const OpTemplate& op) {
  // Of an empty tensor libtorch's CPU kernel returns a mask of the input's dtype, its CUDA kernel one of
  // bools.
  const Ref x = b.operand({.dtypes = op.dtypes, .least = 1});
  // A half and three quarters divide by a power of two.
  const bool powers = b.settings().integer_lane;
  const double p = powers ? b.random().pick({0.5, 0.75}) : b.random().pick({0.5, 0.1, 0.25, 0.9});
  Growth growth{{b.magnitude(x).bound * 4, b.magnitude(x).fraction}, {{4, 0}}, true};
  return b.call(op.op, {x, p, true}, growth);
}

}  // namespace lockstep::generators
