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

// One class a row.
Ref classes(Builder& b, Ref x) {
  return b.fresh(
      {.dtypes = kI64, .shape = Shape{b.tensor(x).size(0)}, .values = indices_below(b.tensor(x).size(1))});
}

Arg class_weights(Builder& b, Ref x, int64_t percent) {
  if (!b.random().chance(percent)) return None{};
  return b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{b.tensor(x).size(1)}, .grad = false});
}

Shape square(int64_t n) {
  return {n, n};
}

// Now and then 2, where a kernel that is spread so still fits into `side` elements.
int64_t draw_dilation(Builder& b, int64_t kernel, int64_t side) {
  return kernel > 1 && 2 * (kernel - 1) < side && b.random().chance(60) ? 2 : 1;
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
  const Ref target = classes(b, x);
  const Arg weight = class_weights(b, x, 30);
  const Arg ignored = b.random().chance(30) ? Arg(int64_t{0}) : Arg(int64_t{-100});
  return emit(b, op, {x, target, weight, b.random().below(kReductionsNumbered), ignored}, {x});
}

// Of class numbers, some of which may count for nothing, or of the classes' shares of each row.
bool cross_entropy(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 2, .least = 1});
  const bool shares = b.random().chance(15);
  const Ref target = shares ? b.operand(same_dtype(b, x, b.shape(x))) : classes(b, x);
  const Arg weight = class_weights(b, x, 40);
  const auto reduction = b.random().below(kReductionsNumbered);
  const int64_t ignored = !shares && b.random().chance(25) ? 0 : -100;
  const double smoothing = b.random().chance(35) ? b.random().pick({0.1, 0.25, 1.0}) : 0.0;
  return emit(b, op, {x, target, weight, reduction, ignored, smoothing}, {x});
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
  if (std::string_view(op.op) == "aten::_adaptive_avg_pool2d")
    return emit(b, op, {x, square(random.between(1, 3))}, {x});
  const auto kernel = random.between(1, 3), padding = random.between(0, kernel / 2);
  const auto sides = b.shape(x);
  const auto side = std::min(sides[sides.size() - 2], sides.back()) + 2 * padding;
  std::vector<Arg> args = {x, square(kernel), square(random.between(1, 2)), square(padding)};
  const bool ceil = random.chance(25);
  if (std::string_view(op.op) == "aten::avg_pool2d") {
    const Arg divisor = random.chance(25) ? Arg(random.between(1, 5)) : Arg(None{});
    args.insert(args.end(), {ceil, !random.chance(25), divisor});
  } else {
    args.insert(args.end(), {square(draw_dilation(b, kernel, side)), ceil});
  }
  return emit(b, op, args, {x});
}

bool layer_norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3, .least = 1});
  const auto shape = b.shape(x);
  const Shape normalized(shape.end() - (b.ndim(x) == 3 && b.random().chance(25) ? 2 : 1), shape.end());
  const bool affine = b.random().chance(70);
  // As under mixed precision, where what is learnt stays in 32 bits.
  auto learnt = same_dtype(b, x, normalized);
  if ((learnt.dtypes & (kBF16 | kF16)) && b.random().chance(30)) learnt.dtypes = kF32;
  const Arg weight = affine ? Arg(b.operand(learnt)) : Arg(None{});
  const Arg bias = affine && b.random().chance(80) ? Arg(b.operand(learnt)) : Arg(None{});
  return emit(b, op, {x, normalized, weight, bias, 1e-5}, {x});
}

bool rms_norm(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .min_dims = 2, .max_dims = 3, .least = 1});
  const Shape normalized = {b.tensor(x).size(-1)};
  const Arg weight = b.random().chance(70) ? Arg(b.operand(same_dtype(b, x, normalized))) : Arg(None{});
  return emit(b, op, {x, normalized, weight, 1e-5}, {x});
}

bool pool_signal(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  Shape shape = {random.between(1, 3), random.between(3, 6)};
  if (random.chance(80))
    shape.insert(shape.begin(), std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 6));
  const Ref x = b.operand({.dtypes = op.dtypes, .shape = shape});
  const auto kernel = random.between(1, 3), padding = random.between(0, kernel / 2);
  const auto dilation = draw_dilation(b, kernel, shape.back() + 2 * padding);
  const Shape stride = {random.between(1, 2)};
  return emit(b, op, {x, Shape{kernel}, stride, Shape{padding}, Shape{dilation}, random.chance(25)}, {x});
}

// With or without a mask, which broadcasts over batch and heads; or, where later keys stay hidden, with none.
bool attention(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  const auto batch = random.between(1, 3), shared = random.weighted<int64_t>({{4, 1}, {1, 2}}),
             heads = shared * std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 8 / shared);
  const auto length = random.between(1, 5), width = random.pick<int64_t>({2, 4, 8});
  const Ref q = b.operand({.dtypes = op.dtypes, .shape = Shape{batch, heads, length, width}});
  const bool masked = random.chance(40), causal = !masked && random.chance(60);
  const auto keys = causal ? length : random.between(1, 6);
  const Want want = same_dtype(b, q, {batch, heads / shared, keys, width});
  const Ref k = b.operand(want), v = b.operand(want);
  Arg mask = None{};
  if (masked) {
    const auto shape = random.pick<Shape>(
        {{length, keys}, {batch, 1, length, keys}, {1, heads, length, keys}, {batch, heads, length, keys}});
    mask = b.operand({.dtypes = random.chance(50) ? kBool : bit_of(b.dtype(q)), .shape = shape});
  }
  const Arg scale = random.chance(25) ? Arg(random.pick({0.5, 0.1, 2.0})) : Arg(None{});
  return emit(b, op, {q, k, v, mask, 0.0, causal, scale, shared > 1}, {q, k, v});
}

// Of signals or of images, or of one of these.
bool convolution(Builder& b, const OpTemplate& op) {
  auto& random = b.random();
  const bool signal = std::string_view(op.op) == "aten::conv1d";
  const auto each = [signal](int64_t n) { return signal ? Shape{n} : square(n); };
  const auto batch = std::min<int64_t>(draw_size(random, b.settings().mesh, 1), 6),
             groups = random.weighted<int64_t>({{4, 1}, {1, 2}}), in = groups * random.between(1, 3);
  const auto side = random.between(3, 6), kernel = random.between(1, 3);
  Shape shape = {batch, in, side}, weights = {groups * random.between(1, 3), in / groups, kernel};
  if (!signal) shape.push_back(side + 1), weights.push_back(kernel);
  if (random.chance(20)) shape.erase(shape.begin());
  const Ref x = b.operand({.dtypes = op.dtypes, .shape = shape});
  const Ref w = b.operand(same_dtype(b, x, weights));
  const Arg bias = random.chance(60) ? Arg(b.operand(same_dtype(b, x, {b.tensor(w).size(0)}))) : Arg(None{});
  const auto stride = random.between(1, 2), padding = random.between(0, 1);
  const auto dilation = draw_dilation(b, kernel, side + 2 * padding);
  return emit(b, op, {x, w, bias, each(stride), each(padding), each(dilation), groups}, {x, w});
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
