// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/bound.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/ownership/dtypes.h"
#include "oracle/ownership/reduce.h"
#include "oracle/ownership/share.h"

namespace lockstep::oracle {
namespace {

bool is_float(const at::Tensor& t) {
  return t.defined() && t.is_floating_point();
}
at::Tensor wide(const at::Tensor& t) {
  return is_float(t) ? t.to(at::kDouble) : t;
}

// What is no floating dtype is bounded as float.
c10::ScalarType floating(c10::ScalarType dtype) {
  return c10::isFloatingType(dtype) ? dtype : c10::ScalarType::Float;
}
double smallest(c10::ScalarType dtype) {
  return with_float(floating(dtype),
                    []<class T>() { return static_cast<double>(std::numeric_limits<T>::denorm_min()); });
}
// Stock kernels accumulate the short types in float.
c10::ScalarType accumulation(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Double ? dtype : c10::ScalarType::Float;
}

at::Tensor finite_only(const at::Tensor& t, double instead) {
  return is_float(t) ? at::where(at::isfinite(t), t, at::full({}, instead, t.options())) : t;
}

Tensors parts(const std::vector<WideInput>& inputs, at::Tensor WideInput::*part) {
  Tensors result;
  for (const WideInput& i : inputs) result.push_back(i.*part);
  return result;
}

// The input of that name, as the schema calls it.
const WideInput& named(const RecordedOp& op, const std::vector<WideInput>& inputs, std::string_view name) {
  size_t at = 0;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (op.op->args[i].name == name) return inputs.at(at);
    at += as_size(std::max<int64_t>(op.tensors_per_arg[i], 0));
  }
  throw Broken(concat("[bound] ", op.op->name, " has no argument ", name));
}

// Sums over all leading dimensions: what normalisation weights are shared along.
at::Tensor sum_to(const at::Tensor& t, const at::Tensor& like) {
  if (!like.defined()) return {};
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < t.dim() - like.dim(); ++d) dims.push_back(d);
  return dims.empty() ? t : at::sum(t, dims);
}

Tensors layer_norm_magnitudes(const RecordedOp& op, const std::vector<WideInput>& in, const Tensors& values) {
  const at::Tensor g = named(op, in, "grad_out").magnitude, x = named(op, in, "input").magnitude;
  const at::Tensor mean = named(op, in, "mean").value, rstd = named(op, in, "rstd").value;
  return {at::Tensor(), sum_to(at::mul(g, at::mul(at::add(x, mean.abs()), rstd.abs())), values[1]),
          sum_to(g, values[2])};
}

Tensors rms_norm_magnitudes(const RecordedOp& op, const std::vector<WideInput>& in, const Tensors& values) {
  const at::Tensor g = named(op, in, "grad_out").magnitude, x = named(op, in, "input").magnitude;
  return {at::Tensor(), sum_to(at::mul(g, at::mul(x, named(op, in, "rstd").value.abs())), values[1])};
}

// The greatest exponent that an input can hand to exp, twice: the rounding of the argument is a relative
// error.
at::Tensor exponent_range(const at::Tensor& x) {
  return x.numel() == 0 ? at::ones({}, at::kDouble)
                        : at::add(at::mul(at::amax(finite_only(x.abs(), 0)), 2), 1);
}

Tensors variance_magnitudes(const std::vector<WideInput>& in, const Tensors& values) {
  const at::Tensor x = finite_only(in[0].magnitude, 0), squares = at::sum(at::mul(x, x));
  Tensors result;
  for (const at::Tensor& v : values) result.push_back(at::add(at::add(v.abs(), at::sqrt(squares)), squares));
  return result;
}

int64_t dim_of(const RecordedOp& op) {
  for (size_t i = 0; i < op.args.size(); ++i)
    if (op.op->args[i].name == "dim" && op.args[i].isInt()) return op.args[i].toInt();
  throw Broken(concat("[bound] ", op.op->name, " has no dim"));
}

at::Tensor softmax_backward_magnitude(const RecordedOp& op, const std::vector<WideInput>& in, bool log) {
  const at::Tensor &g = in[0].magnitude, &y = in[1].value;
  if (log) return at::add(g, at::mul(at::exp(y), at::sum(g, {dim_of(op)}, true)));
  return at::mul(y.abs(), at::add(g, at::sum(at::mul(g, y.abs()), {dim_of(op)}, true)));
}

Tensors magnitudes_by(const OpFamily& family, const RecordedOp& op, const std::vector<Effect>& effects,
                      const std::vector<WideInput>& in, const Tensors& values) {
  switch (family.bound) {
    case Bound::kTwoPaths:
      return Tensors(values.size());
    case Bound::kLinear:
      return apply_magnitudes(op, effects, writable(op, parts(in, &WideInput::magnitude)));
    case Bound::kLayerNorm:
      return layer_norm_magnitudes(op, in, values);
    case Bound::kRmsNorm:
      return rms_norm_magnitudes(op, in, values);
    case Bound::kVariance:
      return variance_magnitudes(in, values);
    case Bound::kSoftmaxBackward:
      return {softmax_backward_magnitude(op, in, false)};
    case Bound::kLogSoftmaxBackward:
      return {softmax_backward_magnitude(op, in, true)};
    case Bound::kRelative:
    case Bound::kSoftmax:
    case Bound::kLogSoftmax:
      break;
  }
  Tensors result;
  for (const at::Tensor& v : values) {
    at::Tensor m = v.abs();
    if (family.bound == Bound::kSoftmax) m = at::mul(m, exponent_range(in[0].value));
    if (family.bound == Bound::kLogSoftmax) m = at::add(m, exponent_range(in[0].value));
    result.push_back(std::move(m));
  }
  return result;
}

double factor_of(const OpFamily& family, int64_t roundings, c10::ScalarType dtype) {
  const double narrow = unit_roundoff(dtype), accumulated = unit_roundoff(accumulation(dtype));
  const auto m = static_cast<double>(roundings);
  const double path = family.accumulates_narrow ? (m + 2) * narrow : m * accumulated + 3 * narrow;
  // gamma_m = m u / (1 - m u), and the reference's own roundings.
  return path / std::max(0.5, 1 - path) + m * unit_roundoff(c10::ScalarType::Double);
}

int64_t roundings_of(const OpFamily& family, const std::vector<WideInput>& in, const Tensors& values) {
  if (family.roundings == nullptr) return 0;
  std::vector<std::vector<int64_t>> inputs, outputs;
  for (const WideInput& i : in)
    inputs.push_back(i.value.defined() ? i.value.sizes().vec() : std::vector<int64_t>());
  for (const at::Tensor& v : values)
    outputs.push_back(v.defined() ? v.sizes().vec() : std::vector<int64_t>());
  return family.roundings(inputs, outputs);
}

// The scalars by which an op multiplies before, amid or after its sums.
bool is_factor(const ArgInfo& info) {
  return info.name == "alpha" || info.name == "beta";
}

// Without them.
RecordedOp without_factors(const RecordedOp& op) {
  RecordedOp result = op;
  for (size_t i = 0; i < result.args.size(); ++i) {
    c10::IValue& value = result.args[i];
    if (is_factor(op.op->args[i]) && value.isDouble()) value = 1.0;
    if (is_factor(op.op->args[i]) && value.isInt()) value = int64_t{1};
  }
  return result;
}

// addmm and its like may multiply a matrix by alpha first: each product that is no normal number loses up to
// the smallest number of the dtype, as often as the other matrix says.
at::Tensor lost_by_factors(const RecordedOp& op, const std::vector<Effect>& effects,
                           const std::vector<WideInput>& in, size_t effect, c10::ScalarType dtype) {
  const auto& args = op.op->args;
  const bool has_beta = std::any_of(args.begin(), args.end(), [](const auto& a) { return a.name == "beta"; });
  if (!has_beta || !is_float(in.at(0).value)) return {};
  at::Tensor lost;
  for (const size_t scaled : {size_t{1}, size_t{2}}) {
    Tensors inputs;
    for (const WideInput& i : in) inputs.push_back(finite_only(i.magnitude, 0));
    inputs[0] = at::zeros_like(inputs[0]);
    inputs.at(scaled) = at::full_like(inputs[scaled], smallest(dtype));
    const at::Tensor part = apply_magnitudes(without_factors(op), effects, writable(op, inputs))[effect];
    lost = lost.defined() ? at::add(lost, part) : part;
  }
  return lost;
}

bool is_norm(const OpFamily& family) {
  return family.name == "linalg_vector_norm" || family.name == "norm";
}

// A norm adds |x|^p, p > 1: what lies below the smallest number vanishes from the sum, and its root may be
// large.
at::Tensor lost_by_powers(const RecordedOp& op, const at::Tensor& norm, int64_t roundings,
                          c10::ScalarType dtype) {
  const double p = op.args.at(1).isNone() ? 2 : op.args.at(1).toScalar().toDouble();
  if (!(p > 1) || std::isinf(p)) return {};
  const double lost = static_cast<double>(roundings) * smallest(accumulation(dtype));
  const at::Tensor sum = at::pow(norm, p);
  const at::Tensor root = at::full({}, std::pow(lost, 1 / p), at::kDouble);
  return at::where(at::le(sum, lost), root, at::mul(at::div(norm, sum), lost)).nan_to_num(0, 0, 0);
}

}  // namespace

double unit_roundoff(c10::ScalarType dtype) {
  return std::ldexp(1.0, -precision_of(floating(dtype)));
}

WideInput widen(const std::vector<at::Tensor>& terms, const std::vector<ReduceOp>& ops,
                const std::vector<int64_t>& sizes) {
  Tensors doubles, positive;
  for (const at::Tensor& t : terms) {
    doubles.push_back(wide(t));
    positive.push_back(is_float(t) ? doubles.back().abs() : t);
  }
  return {fold_terms(std::move(doubles), ops, sizes), fold_terms(std::move(positive), ops, sizes)};
}

std::vector<Reference> references(const OpFamily& family, const RecordedOp& op,
                                  const std::vector<Effect>& effects, const std::vector<WideInput>& inputs,
                                  c10::ScalarType dtype) {
  const Tensors exact = apply_f64(op, effects, writable(op, parts(inputs, &WideInput::value)));
  const Tensors sizes = magnitudes_by(family, op, effects, inputs, exact);
  const int64_t roundings = roundings_of(family, inputs, exact);
  std::vector<Reference> result;
  for (size_t i = 0; i < exact.size(); ++i) {
    Reference r;
    r.value = exact[i];
    r.magnitude = sizes.at(i);
    if (r.magnitude.defined()) {
      r.factor = factor_of(family, roundings, dtype);
      r.floor = static_cast<double>(roundings) * smallest(dtype);
      if (family.bound == Bound::kLinear) r.lost = lost_by_factors(op, effects, inputs, i, dtype);
      if (is_norm(family)) r.lost = lost_by_powers(op, exact[i], roundings, dtype);
    }
    result.push_back(std::move(r));
  }
  return result;
}

}  // namespace lockstep::oracle
