// SPDX-License-Identifier: Apache-2.0
// Pointwise ops: a shard of an output dimension is the same shard of every input that has that dimension.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "engine/ops/rules/families.h"
#include "engine/ops/rules/laid_out.h"

namespace lockstep::rules {
namespace {

// The placement of input i where output dimension `dim` of `ndim` is sharded: broadcast inputs stay whole,
// and of one element what must stay is broadcast, if to nothing.
Placement aligned(const TensorMeta& input, int64_t dim, int64_t ndim, int64_t extent) {
  const int64_t own = dim - (ndim - input.ndim());
  if (own < 0 || input.shape[static_cast<size_t>(own)] != extent) return Replicate{};
  if (input.constant && extent == 1) return Replicate{};
  return Shard{own};
}

double rounded(double value, c10::ScalarType dtype) {
  const auto single = static_cast<float>(value);
  if (dtype == at::kHalf) return c10::Half(single);
  if (dtype == at::kBFloat16) return c10::BFloat16(single);
  return dtype == at::kFloat ? single : value;
}

bool changes_dtype(const OpCall& call) {
  return call.inputs[0].dtype != call.outputs[0].dtype;
}

// mul and div: a Partial passes if scaled by a positive constant, `scalar` in a foreach op; not if it is
// rounded. Integers wrap around, and so do their sums.
Rows scaled(const OpCall& call) {
  auto rows = pointwise(call);
  const auto* factor = call.args.find("other");
  if (factor == nullptr) factor = call.args.find("scalar");
  const bool constant = call.inputs.size() == 1 && factor != nullptr &&
                        positive(*factor, call.inputs[0].dtype) && call.args.find("rounding_mode") == nullptr;
  if (!constant || changes_dtype(call)) return rows;
  add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg});
  return rows;
}

bool is_one_element(const OpCall& call, const TensorMeta& meta) {
  // Elements of lists meet as they are.
  if (meta.ndim() > 1 && (call.name.starts_with("aten::_foreach_") || call.name.starts_with("aten::_fused_")))
    return false;
  return std::all_of(meta.shape.begin(), meta.shape.end(), [](int64_t n) { return n == 1; });
}

// Every DTensor of the output's shape cut by `ragged`; nullopt if another tensor cannot meet a flat local. A
// plain one is as it is on every rank.
std::optional<Row> ragged_row(const OpCall& call, const Placement& ragged) {
  auto row = row_of(call, Replicate{}, ragged);
  const auto& shape = call.outputs[0].shape;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].defined) continue;
    if (call.inputs[i].shape == shape && !call.inputs[i].plain)
      row.inputs[i] = ragged;
    else if (!is_one_element(call, call.inputs[i]))
      return std::nullopt;
  }
  return row;
}

// A flat local of a number has a dimension, so that others may have to have none; and where dtypes meet the
// result's may depend on it. Only the first input is flat, and the fused steps ask for more of the rest.
std::optional<Row> ragged_number(const OpCall& call, size_t input) {
  const bool meet = std::any_of(call.inputs.begin(), call.inputs.end(), [&](const auto& other) {
    return other.defined && other.dtype != call.inputs[0].dtype;
  });
  if (input != 0 || meet || call.outputs.size() > 1) return std::nullopt;
  auto row = row_of(call, Replicate{}, call.current[0]);
  row.inputs[0] = call.current[0];
  return row;
}

// add: all inputs Partial of one kind.
Rows additive(const OpCall& call) {
  auto rows = pointwise(call);
  const auto& out = call.outputs[0];
  // A broadcast or converted term would be added once for each rank; a negative factor turns the identity
  // -0.0 into +0.0.
  for (const auto& input : call.inputs)
    if (input.dtype != out.dtype) return rows;
  const auto* factor = call.args.find("alpha");
  const bool added = factor == nullptr || positive(*factor, out.dtype);
  if (call.inputs.size() < 2 || !added) return rows;
  add_partials(rows, call, {ReduceOp::kSum, ReduceOp::kAvg}, call.inputs.size());
  return rows;
}

// Every Partial passes if the dtype stays.
Rows copying(const OpCall& call) {
  auto rows = pointwise(call);
  for (const auto& input : call.inputs)
    if (input.dtype != call.outputs[0].dtype) return rows;
  add_partials(rows, call, kEveryReduction, call.inputs.size());
  return rows;
}

// Total and strictly increasing, so that neither NaNs nor signs of zeros come in where the maximum has none:
// max and min pass.
Rows monotone(const OpCall& call) {
  auto rows = pointwise(call);
  if (!changes_dtype(call)) add_partials(rows, call, {ReduceOp::kMax, ReduceOp::kMin});
  return rows;
}

// --- results ---

Metas as_self(const Arguments& args) {
  return {{at::neg(args.tensor("self"))}};
}
Metas as_self_and_other(const Arguments& args) {
  const auto self = args.tensor("self");
  const auto& other = args["other"];
  return {{other.isTensor() ? at::add(self, args.tensor("other")) : at::add(self, other.toScalar())}};
}
// Of a number and a tensor; the other overloads have meta kernels.
Metas as_other(const Arguments& args) {
  if (args["self"].isTensor()) return std::nullopt;
  return {{at::add(args.tensor("other"), args["self"].toScalar())}};
}
Metas as_grad_and_self(const Arguments& args) {
  return {{at::add(args.tensor("grad_output"), args.tensor("self"))}};
}
// As the gradient, but where the others make it larger: then as they lie, the gradient last. On CUDA the
// buffer is not asked.
Metas of_log_sigmoid_backward(const Arguments& args) {
  const auto grad = args.tensor("grad_output"), self = args.tensor("self");
  const auto all = laid_out_by(self, args.device() == c10::kCUDA ? self : args.tensor("buffer"), grad);
  return {{all.sizes() == grad.sizes() ? at::empty_like(grad, all.options()) : all}};
}
// Contiguous, but where the others make it larger: then as they lie, the gradient last.
Metas of_mse_loss_backward(const Arguments& args) {
  const auto self = args.tensor("self");
  const auto all = laid_out_by(self, args.tensor("target"), args.tensor("grad_output"));
  return {{all.sizes() == self.sizes() ? at::empty(self.sizes(), all.options()) : all}};
}
// Of integers too it is a float.
Metas of_logit(const Arguments& args) {
  return {{at::sigmoid(args.tensor("self"))}};
}
Metas of_isnan(const Arguments& args) {
  return {{at::eq(args.tensor("self"), args.tensor("self"))}};
}

Metas of_where(const Arguments& args) {
  const auto *self = args.find("self"), *other = args.find("other");
  if (self == nullptr || !self->isTensor() || !other->isTensor()) return std::nullopt;
  const auto a = self->toTensor(), b = other->toTensor();
  const auto dtype = at::result_type(a, b);
  const auto wide = dtype == at::kBool ? at::kByte : dtype;
  const auto cast = [wide, dtype](const at::Tensor& t) {
    return t.to(at::TensorOptions().dtype(dtype).device(at::kMeta)).to(wide);
  };
  const auto all = at::addcmul(cast(args.tensor("condition")), cast(a), cast(b));
  return {{at::empty_strided(all.sizes(), all.strides(), all.options().dtype(dtype))}};
}

}  // namespace

void add_ragged_rows(Rows& rows, const OpCall& call) {
  for (size_t i = 0; i < call.current.size(); ++i) {
    const auto& placement = call.current[i];
    if (!is_ragged(placement) || call.inputs[i].shape != call.outputs[0].shape) continue;
    const auto row = call.outputs[0].ndim() == 0 ? ragged_number(call, i) : ragged_row(call, placement);
    if (row && std::find(rows.begin(), rows.end(), *row) == rows.end()) rows.push_back(*row);
  }
}

// A product over pending terms may lose the sign of zero: (+0)(-2) is -0, but the terms (+0)(-2) and (-0)(-2)
// add up to +0. Only a positive constant keeps every sign; an infinite one makes NaN of a term of zero, and
// one that is zero loses them all, which it may be of the tensors' dtype only.
bool positive(const c10::IValue& value, c10::ScalarType dtype) {
  if (value.isInt() && c10::isIntegralType(dtype, /*includeBool=*/true)) return value.toInt() > 0;
  if (!value.isInt() && !value.isDouble()) return false;
  const double factor = rounded(value.toScalar().toDouble(), dtype);
  return factor > 0 && std::isfinite(factor);
}

Rows pointwise(const OpCall& call) {
  Rows rows;
  const auto& out = call.outputs[0];
  for (int64_t dim = 0; dim < out.ndim(); ++dim) {
    Row row{Placements(call.outputs.size(), Shard{dim}), {}, {}};
    for (const auto& input : call.inputs)
      row.inputs.push_back(aligned(input, dim, out.ndim(), out.shape[static_cast<size_t>(dim)]));
    rows.push_back(std::move(row));
  }
  add_ragged_rows(rows, call);
  return rows;
}

Records pointwise_ops() {
  // clang-format off
  Records records = {
      {.name = "abs", .rows = pointwise, .infer = as_self},
      {.name = "add", .rows = additive, .run = local::as_one_of_many},
      {.name = "div", .rows = scaled, .run = local::as_one_of_many},
      {.name = "fill", .rows = pointwise, .run = local::filled},
      {.name = "floor_divide", .rows = pointwise, .run = local::as_one_of_many, .infer = as_self_and_other},
      {.name = "hardswish", .rows = pointwise, .infer = as_self},
      {.name = "hardswish_backward", .rows = pointwise, .infer = as_grad_and_self},
      {.name = "hardtanh", .rows = pointwise, .infer = as_self},
      {.name = "hardtanh_backward", .rows = pointwise, .infer = as_grad_and_self},
      {.name = "isnan", .rows = pointwise, .infer = of_isnan},
      {.name = "log_sigmoid_backward", .rows = pointwise, .infer = of_log_sigmoid_backward},
      {.name = "logit", .rows = pointwise, .infer = of_logit},
      {.name = "mse_loss"},
      {.name = "mse_loss_backward", .infer = of_mse_loss_backward},
      {.name = "mul", .rows = scaled, .run = local::as_one_of_many},
      {.name = "remainder", .rows = pointwise, .infer = as_other},
      {.name = "relu", .rows = pointwise, .infer = as_self},
      {.name = "sub", .rows = pointwise, .run = local::as_one_of_many},
      {.name = "where", .rows = pointwise, .infer = of_where, .except = ""},  // of a condition alone: nonzero
  };
  add_alike(records, {.rows = monotone}, {"erf", "exp", "expm1", "sigmoid", "tanh"});
  add_alike(records, {.rows = copying}, {"_to_copy", "clone", "copy", "lift_fresh_copy"});
  add_alike(records, {.rows = pointwise}, {
      "acos", "acosh", "addcdiv", "addcmul", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and",
      "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil",
      "celu", "clamp", "clamp_max", "clamp_min", "copysign", "cos", "cosh", "digamma", "elu",
      "elu_backward", "eq", "erfc", "erfinv", "exp2", "floor", "fmax", "fmin", "fmod", "frac",
      "gcd", "ge", "gelu", "gelu_backward", "gt", "hardsigmoid", "hardsigmoid_backward", "heaviside",
      "hypot", "i0", "isinf", "isneginf", "isposinf", "le", "leaky_relu", "leaky_relu_backward",
      "lerp", "lgamma", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "logical_and",
      "logical_not", "logical_or", "logical_xor", "logit_backward", "lt", "masked_fill", "maximum",
      "minimum", "mish", "mish_backward", "nan_to_num", "ne", "neg", "nextafter", "polygamma", "pow",
      "reciprocal",
      "round", "rsqrt", "rsub", "sgn", "sigmoid_backward", "sign", "signbit", "silu",
      "silu_backward", "sin", "sinc", "sinh", "softplus", "softplus_backward", "softshrink",
      "softshrink_backward", "sqrt",
      "tan", "tanh_backward", "threshold", "threshold_backward", "trunc", "xlogy", "zero",
      "_fused_adam", "_fused_adamw", "_fused_sgd"});
  // clang-format on
  return records;
}

}  // namespace lockstep::rules
