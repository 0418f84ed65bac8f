// SPDX-License-Identifier: Apache-2.0
// Makers of pointwise ops: broadcasting, mixed dtypes, in-place.
#include "generators/ops/makers.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

Want any_of(const OpTemplate& op) {
  return {.dtypes = op.dtypes, .plain_zeros = op.orders_zeros(), .grad = (op.traits & kNoHistory) == 0};
}

// A second operand that broadcasts with `x`: to its shape where x is written, else either way round.
Ref partner(Builder& b, const OpTemplate& op, Ref x) {
  Want want{.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = b.random().chance(45)};
  want.plain_zeros = op.orders_zeros();
  want.grad = !(op.traits & kNoHistory);
  if (op.in_place() && !(op.traits & kLinear)) want.apart = {x};
  if (b.random().chance(25)) {
    want.dtypes =
        op.in_place() && c10::isIntegralType(b.dtype(x), false) ? bit_of(b.dtype(x)) : op.dtypes | kI64;
    if (op.in_place() && b.dtype(x) == c10::ScalarType::Bool) want.dtypes = kBool;
    if (!(op.dtypes & kFloats)) want.dtypes = op.dtypes & (op.in_place() ? bit_of(b.dtype(x)) : ~0u);
  }
  return b.operand(want);
}

bool is_one_of(const OpTemplate& op, std::initializer_list<const char*> names) {
  const std::string_view name(op.op);
  return std::any_of(names.begin(), names.end(), [&](const char* n) { return name == n; });
}

}  // namespace

bool unary(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, any_of(op));
  return emit(b, op, {x}, op.grow == Grow::kProduct ? std::vector{x, x} : std::vector{x});
}

bool binary(Builder& b, const OpTemplate& op) {
  Ref x = first_operand(b, op, any_of(op));
  Ref y = partner(b, op, x);
  if (!op.in_place() && b.random().chance(50)) std::swap(x, y);
  std::vector<Arg> args = {x, y};
  auto growth = grown(b, op, {x, y});
  if (is_one_of(op, {"aten::add.Tensor", "aten::sub.Tensor", "aten::add_.Tensor", "aten::sub_.Tensor"}) &&
      b.random().chance(25)) {
    const bool whole =
        b.settings().integer_lane || !c10::isFloatingType(b.dtype(x)) || !c10::isFloatingType(b.dtype(y));
    const Arg alpha =
        whole ? Arg(b.random().pick<int64_t>({2, -1, 3})) : Arg(b.random().pick<double>({0.5, -1.5, 2.0}));
    args.push_back(alpha);
    if (b.settings().integer_lane) {
      growth.result = b.magnitude(x) + b.magnitude(y) * magnitude_of(alpha);
      growth.factors[1] = growth.factors[1] * magnitude_of(alpha);
    }
  }
  return b.call(op.op, std::move(args), growth, !(op.traits & kLinear));
}

namespace {

// A pending sum of integers by a factor that makes a fraction of each term.
bool scaled_whole(Builder& b, const OpTemplate& op) {
  const auto& mesh = b.settings().mesh;
  const auto target = placed_along(mesh, b.random().below(mesh.ndim()), Partial{});
  const Ref x = b.fresh({.dtypes = kI64, .placement = target, .grad = false});
  const double factor = b.random().pick({0.5, 2.0});
  auto growth = grown(b, op, {x});
  growth.result = b.magnitude(x) * magnitude_of(factor);
  return b.call(op.op, {x, factor}, growth, false);
}

}  // namespace

bool with_number(Builder& b, const OpTemplate& op) {
  // The derivative of a comparison in place is a plain tensor of zeros, made by autograd.
  const bool grad = !(op.traits & kNoHistory) && !(op.in_place() && op.grow == Grow::kOne);
  if (is_one_of(op, {"aten::mul.Scalar", "aten::div.Scalar"}) && !b.is_outside() && b.random().chance(8))
    return scaled_whole(b, op);
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes, .plain_zeros = op.orders_zeros(), .grad = grad});
  const bool converts = !op.in_place() && !b.settings().integer_lane && b.random().chance(10);
  auto number = draw_number(b, converts ? c10::ScalarType::Float : b.dtype(x));
  // Division and remainder by zero have no integer result.
  const std::string_view name(op.op);
  const bool divides =
      name.find("div") != name.npos || name.find("mod") != name.npos || name.find("remainder") != name.npos;
  // Nor has that of the least integer by -1: it traps.
  const bool undefined = number == Arg(int64_t{0}) || number == Arg(0.0) || number == Arg(int64_t{-1});
  if (divides && undefined) number = int64_t{3};
  auto growth = grown(b, op, {x});
  if (b.settings().integer_lane && op.grow != Grow::kOne) {
    const auto m = magnitude_of(number);
    growth.result = op.grow == Grow::kProduct ? b.magnitude(x) * m
                    : op.grow == Grow::kSame  ? larger(b.magnitude(x), m)
                                              : b.magnitude(x) + m;
    growth.factors = {op.grow == Grow::kProduct ? m : Magnitude{}};
  }
  return b.call(op.op, {x, number}, growth, !(op.traits & kLinear));
}

bool polygamma(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  const auto order = static_cast<int64_t>(b.random().below(3));
  return op.in_place() ? emit(b, op, {x, order}, {x}) : emit(b, op, {order, x}, {x});
}

bool round_decimals(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, any_of(op));
  return emit(b, op, {x, b.random().between(-1, 2)}, {x});
}

// Of a number and a tensor, in this order.
bool of_number(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand(any_of(op));
  return emit(b, op, {draw_number(b, b.dtype(x)), x}, {x});
}

// By fewer places than an integer has.
bool shift_number(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, any_of(op));
  return emit(b, op, {x, b.random().between(0, 6)}, {x});
}

bool divide_number(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  const auto number = b.random().pick({0.5, 2.0, -1.5, 3.0});
  return emit(b, op, {x, number, std::string(b.random().chance(50) ? "floor" : "trunc")}, {x});
}

bool power_number(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  // Exponents that stock kernels compute by products, quotients and roots.
  const bool floating = c10::isFloatingType(b.dtype(x));
  const Arg exponent = floating ? Arg(b.random().pick<double>({2.0, 3.0, 0.5, -1.0, -2.0}))
                                : Arg(b.random().pick<int64_t>({2, 3}));
  return emit(b, op, {x, exponent}, {x});
}

bool power_tensor(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  const oracle::Values exponents{.kind = oracle::ValueKind::kIntegers, .low = 0, .high = 3};
  const Ref y =
      b.fresh({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = true, .values = exponents});
  return emit(b, op, {x, y}, {x, y});
}

bool divide_rounding(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  const Ref y = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = true});
  return emit(b, op, {x, y, std::string(b.random().chance(50) ? "floor" : "trunc")}, {x, y});
}

bool clamp_numbers(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes, .plain_zeros = op.orders_zeros()});
  const bool whole = b.settings().integer_lane || !c10::isFloatingType(b.dtype(x));
  const Arg low = whole ? Arg(int64_t{-1}) : Arg(-0.5), high = whole ? Arg(int64_t{2}) : Arg(0.75);
  const auto both = b.random().below(3);
  return emit(b, op, {x, both == 1 ? Arg(None{}) : low, both == 2 ? Arg(None{}) : high}, {x});
}

bool clamp_tensors(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes, .plain_zeros = op.orders_zeros()});
  const Want bound{
      .dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = true, .plain_zeros = true};
  const Ref low = b.operand(bound);
  if (b.random().chance(40)) return emit(b, op, {x, low, None{}}, {x, low});
  const Ref high = b.operand(bound);
  return emit(b, op, {x, low, high}, {x, low, high});
}

bool where(Builder& b, const OpTemplate& op) {
  Ref x = b.operand({.dtypes = op.dtypes});
  const auto dtypes = b.random().chance(70) ? bit_of(b.dtype(x)) : op.dtypes;
  Ref y = b.operand({.dtypes = dtypes, .shape = b.shape(x), .broadcasts = true});
  const Ref condition =
      b.operand({.dtypes = kBool, .shape = b.shape(x), .broadcasts = b.random().chance(50)});
  if (b.random().chance(50)) std::swap(x, y);
  return emit(b, op, {condition, x, y}, {condition, x, y});
}

bool where_scalar(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand(any_of(op));
  const Ref condition =
      b.operand({.dtypes = kBool, .shape = b.shape(x), .broadcasts = b.random().chance(50)});
  const std::string_view name(op.op);
  if (name == "aten::where.ScalarSelf") return emit(b, op, {condition, draw_number(b, b.dtype(x)), x}, {x});
  if (name == "aten::where.Scalar") {
    const auto number = draw_number(b, b.dtype(x));
    return emit(b, op, {condition, number, draw_number(b, b.dtype(x))}, {condition});
  }
  auto growth = grown(b, op, {condition, x});
  growth.result = larger(growth.result, {3, 0});
  return b.call(op.op, {condition, x, draw_number(b, b.dtype(x))}, growth);
}

bool lerp(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  Want same{.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = b.random().chance(30)};
  if (op.in_place()) same.apart = {x};
  const Ref y = b.operand(same);
  const Arg weight = std::string_view(op.op).ends_with("Scalar")
                         ? Arg(b.random().pick<double>({0.25, 0.5, 0.9}))
                         : Arg(b.operand(same));
  return emit(b, op, {x, y, weight}, {x, y});
}

bool addc(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  Want same{.dtypes = bit_of(b.dtype(x)), .shape = b.shape(x), .broadcasts = b.random().chance(30)};
  if (op.in_place()) same.apart = {x};
  const Ref y = b.operand(same), z = b.operand(same);
  const Arg value = b.settings().integer_lane || !c10::isFloatingType(b.dtype(x))
                        ? Arg(int64_t{1})
                        : Arg(b.random().pick<double>({1.0, 0.5, -2.0}));
  Growth growth;
  if (b.settings().integer_lane) {
    growth = grown(b, op, {x, y, z});
    growth.result = b.magnitude(x) + b.magnitude(y) * b.magnitude(z);
    growth.factors[1] = growth.factors[1] * b.magnitude(z);
    growth.factors[2] = growth.factors[2] * b.magnitude(y);
  }
  return b.call(op.op, {x, y, z, value}, growth);
}

bool masked_fill(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes});
  const Ref mask = b.operand({.dtypes = kBool, .shape = b.shape(x), .broadcasts = b.random().chance(50)});
  if (std::string_view(op.op).ends_with("Scalar")) {
    auto growth = grown(b, op, {x, mask});
    growth.result = larger(growth.result, {3, 0});
    return b.call(op.op, {x, mask, draw_number(b, b.dtype(x))}, growth);
  }
  // The derivative of a tensor to fill with selects by the mask: its shapes depend on values.
  const Ref value = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{}, .grad = false});
  return emit(b, op, {x, mask, value}, {x, mask, value});
}

bool copysign(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, any_of(op));
  // The derivative by the signs is a plain tensor of zeros, made by autograd.
  const Ref signs = b.operand(
      {.dtypes = op.dtypes | kI64, .shape = b.shape(x), .broadcasts = b.random().chance(45), .grad = false});
  return emit(b, op, {x, signs}, {x, signs});
}

namespace {

// Of this shape, and not dense.
Ref with_gaps(Builder& b, uint32_t dtypes, Shape shape) {
  const auto last = std::ssize(shape) - 1, n = shape.back();
  shape.back() = 2 * n;
  const Ref wide = b.unsharded(b.operand({.dtypes = dtypes, .shape = shape}), {last});
  return emit(b, template_of("aten::slice.Tensor"), {wide, last, int64_t{0}, n, int64_t{1}}, {wide})
             ? b.results()[0]
             : b.operand({.dtypes = dtypes, .shape = shape});
}

}  // namespace

// As many tensors as the op takes, of one shape and dtype; a gradient may lie otherwise.
bool alike(Builder& b, const OpTemplate& op) {
  std::vector<Ref> operands = {first_operand(b, op, any_of(op))};
  Want same = any_of(op);
  same.dtypes = bit_of(b.dtype(operands[0]));
  same.shape = b.shape(operands[0]);
  while (operands.size() < oracle::find_operator(op.op).args.size()) operands.push_back(b.operand(same));
  if (std::string_view(op.op).ends_with("_backward") && !same.shape->empty() && b.random().chance(40))
    operands[0] = with_gaps(b, same.dtypes, *same.shape);
  return emit(b, op, {operands.begin(), operands.end()}, operands);
}

// grad_output, self, noise.
bool rrelu_backward(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand(any_of(op));
  Want same = any_of(op);
  same.dtypes = bit_of(b.dtype(x));
  same.shape = b.shape(x);
  const Ref grad = b.operand(same), noise = b.operand(same);
  return emit(b, op, {grad, x, noise, 0.125, 0.25, b.random().chance(50), false}, {grad, x, noise});
}

bool threshold(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, any_of(op));
  return emit(b, op, {x, draw_number(b, b.dtype(x)), draw_number(b, b.dtype(x))}, {x});
}

bool gelu(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  return emit(b, op, {x, std::string(b.random().chance(50) ? "none" : "tanh")}, {x});
}

}  // namespace lockstep::generators
