// SPDX-License-Identifier: Apache-2.0
// Makers of ops that fill, copy, cast, and draw from the random stream.
#include <ATen/ops/empty.h>

#include "generators/ops/makers.h"

namespace lockstep::generators {

bool fill_random(Builder& b, const OpTemplate& op) {
  const Ref x = b.target({.dtypes = op.dtypes});
  const std::string_view name(op.op);
  if (name == "aten::uniform_") {
    return b.random().chance(60) ? b.call(op.op, {x}) : b.call(op.op, {x, -1.5, 2.0});
  }
  if (name == "aten::normal_") {
    return b.random().chance(60) ? b.call(op.op, {x}) : b.call(op.op, {x, 0.5, 2.0});
  }
  return b.call(op.op, {x, b.random().pick({0.5, 0.25, 0.1, 0.9})}, {b.magnitude(x), {}}, false);
}

// Of means, deviations, or both, one for each element. Deviations are new tensors that do not pend, whose
// terms could be negative.
bool normal_of(Builder& b, const OpTemplate& op) {
  const auto deviations = [&b, &op](const Shape& shape) {
    auto target = draw_target(b.random(), b.settings().mesh, shape, at::kFloat,
                              b.settings().placements & ~(kPartials | kRagged));
    return b.fresh({.dtypes = op.dtypes & b.settings().dtypes,
                    .shape = shape,
                    .values = oracle::Values{oracle::ValueKind::kUniform, 0, 0, 0, {}},
                    .placement = target});
  };
  const std::string_view name(op.op);
  if (name == "aten::normal.float_Tensor")
    return b.call(op.op, {0.5, deviations(draw_shape(b.random(), b.settings().mesh, 2, 48))});
  const Ref means = b.operand({.dtypes = op.dtypes});
  if (name == "aten::normal.Tensor_float") return b.call(op.op, {means, b.random().pick({1.0, 0.5})});
  return b.call(op.op, {means, deviations(b.shape(means))});
}

bool rrelu(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  return b.call(op.op, {x, 0.125, 0.75, true}, {b.magnitude(x), {{1, 0}}, true});
}

bool like(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = false});
  const std::string_view name(op.op);
  if (name == "aten::full_like") return b.call(op.op, {x, draw_number(b, b.dtype(x))}, {{3, 0}, {}}, false);
  if (name == "aten::randint_like")
    return b.call(op.op, {x, b.random().pick<int64_t>({2, 7, 100})}, {{100, 0}, {}}, false);
  if (name == "aten::randint_like.low_dtype")
    return b.call(op.op, {x, int64_t{-5}, int64_t{6}}, {{6, 0}, {}}, false);
  return b.call(op.op, {x}, {}, false);
}

// Of a shape of its own, or the tensor's.
bool new_tensor(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes, .grad = false});
  const auto shape = b.random().chance(60) ? b.shape(x) : draw_shape(b.random(), b.settings().mesh, 2, 48);
  const std::string_view name(op.op);
  if (name == "aten::new_full")
    return b.call(op.op, {x, shape, draw_number(b, b.dtype(x))}, {{3, 0}, {}}, false);
  if (name != "aten::new_empty_strided") return b.call(op.op, {x, shape}, {}, false);
  auto strides = shape == b.shape(x) ? b.tensor(x).strides().vec() : at::empty(shape).strides().vec();
  if (b.random().chance(20)) strides.assign(strides.size(), 1);  // elements share memory
  // What it holds is whatever was there: it is written before anyone may read it.
  return b.call(op.op, {x, shape, strides}, {}, false) && b.call("aten::zero_", {b.results()[0]}, {}, false);
}

bool cast(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  // The integer lane casts only up: to a dtype that holds the magnitude.
  const auto to = b.random().pick({c10::ScalarType::Double, c10::ScalarType::Float, c10::ScalarType::Float,
                                   c10::ScalarType::BFloat16, c10::ScalarType::Half, c10::ScalarType::Long});
  if (to == c10::ScalarType::Long && b.settings().integer_lane == false && c10::isFloatingType(b.dtype(x)))
    return b.call(op.op, {x, c10::ScalarType::Double}, {}, false);  // NaN to integer is undefined
  return emit(b, op, {x, to}, {x});
}

bool copy_into(Builder& b, const OpTemplate& op) {
  const Ref x = b.target({.dtypes = op.dtypes});
  const bool floating = c10::isFloatingType(b.dtype(x));
  const Ref y = b.operand({.dtypes = floating && !b.settings().integer_lane ? kNumbers : bit_of(b.dtype(x)),
                           .shape = b.shape(x),
                           .broadcasts = b.random().chance(40)});
  return emit(b, op, {x, y}, {x, y});
}

bool fill_number(Builder& b, const OpTemplate& op) {
  const Ref x = b.target({.dtypes = op.dtypes});
  if (std::string_view(op.op) == "aten::zero_") return b.call(op.op, {x}, {b.magnitude(x), {}}, false);
  return b.call(op.op, {x, draw_number(b, b.dtype(x))}, {larger(b.magnitude(x), {3, 0}), {}}, false);
}

// With a number, or with a tensor of one.
bool fill_copy(Builder& b, const OpTemplate& op) {
  const Ref x = first_operand(b, op, {.dtypes = op.dtypes, .grad = false});
  if (std::string_view(op.op).ends_with("Scalar"))
    return b.call(op.op, {x, draw_number(b, b.dtype(x))}, {larger(b.magnitude(x), {3, 0}), {}}, false);
  const Ref value = b.operand({.dtypes = bit_of(b.dtype(x)), .shape = Shape{}, .grad = false});
  return b.call(op.op, {x, value}, {larger(b.magnitude(x), b.magnitude(value)), {}}, false);
}

bool own_detach(Builder& b, const OpTemplate& op) {
  const Ref x = b.operand({.dtypes = op.dtypes});
  return b.call(op.op, {x}, {b.magnitude(x), {}}, false);
}

}  // namespace lockstep::generators
