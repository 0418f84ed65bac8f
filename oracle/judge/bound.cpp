// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/bound.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
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
double greatest(c10::ScalarType dtype) {
  return with_float(floating(dtype),
                    []<class T>() { return static_cast<double>(std::numeric_limits<T>::max()); });
}

// Stock kernels accumulate the short types in float.
c10::ScalarType accumulation(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Double ? dtype : c10::ScalarType::Float;
}

at::Tensor infinite() {
  return at::full({}, std::numeric_limits<double>::infinity(), at::kDouble);
}

bool all_finite(const at::Tensor& t) {
  return at::isfinite(t).all().item<bool>();
}

at::Tensor finite_only(const at::Tensor& t, double instead) {
  return is_float(t) ? at::where(at::isfinite(t), t, at::full({}, instead, t.options())) : t;
}

Tensors parts(const std::vector<WideInput>& inputs, at::Tensor WideInput::*part) {
  Tensors result;
  for (const WideInput& i : inputs) result.push_back(i.*part);
  return result;
}

// In-place ops write to what they are given.
Tensors writable(const RecordedOp& op, Tensors inputs) {
  for (const size_t i : op.written) inputs[i] = inputs[i].clone();
  return inputs;
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
    case Bound::kExact:
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

struct Element {
  double actual, expected, plain, bound, range;
};

Within judge_element(const Element& e, const Reference& r, double most) {
  // What no order can tell apart: the same infinity, or NaN on both sides.
  if (std::isnan(e.actual) && std::isnan(e.expected)) return Within::kYes;
  if (e.actual == e.expected || std::abs(e.actual - e.expected) <= e.bound)
    return std::isfinite(e.plain) || !std::isfinite(e.expected) ? Within::kYes : Within::kOverflow;
  // Finite terms so large that a partial result leaves the range of the dtype in some order.
  const bool infinite = !std::isfinite(e.actual) || !std::isfinite(e.expected) || r.order_free;
  return infinite && e.range * (1 + r.factor) >= most ? Within::kOverflow : Within::kNo;
}

// The scalars by which an op multiplies before, amid or after its sums.
bool is_factor(const ArgInfo& info) {
  return info.name == "alpha" || info.name == "beta";
}

// Each factor f is max(least, |f|), at most `most`.
RecordedOp with_factors(const RecordedOp& op, double least, double most) {
  RecordedOp result = op;
  for (size_t i = 0; i < result.args.size(); ++i) {
    c10::IValue& value = result.args[i];
    if (!is_factor(op.op->args[i]) || !(value.isDouble() || value.isInt())) continue;
    const double f = std::clamp(std::abs(value.toScalar().toDouble()), least, most);
    if (value.isDouble()) value = f;
    if (value.isInt()) value = static_cast<int64_t>(f);
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
    const at::Tensor part = apply_magnitudes(with_factors(op, 1, 1), effects, writable(op, inputs))[effect];
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

// An input by itself times the factors: a kernel may multiply them first.
double greatest_scaled_input(const RecordedOp& op, const std::vector<WideInput>& in) {
  double factor = 1, most = 0;
  bool any = false;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (!is_factor(op.op->args[i]) || !(op.args[i].isDouble() || op.args[i].isInt())) continue;
    any = true;
    factor = std::max(factor, std::abs(op.args[i].toScalar().toDouble()));
  }
  if (!any) return 0;
  for (const WideInput& i : in)
    if (is_float(i.magnitude) && i.magnitude.numel() > 0)
      most = std::max(most, at::amax(finite_only(i.magnitude, 0)).item<double>());
  return factor * most;
}

at::Tensor range_of_linear(const OpFamily& family, const RecordedOp& op, const std::vector<Effect>& effects,
                           const std::vector<WideInput>& in, size_t effect) {
  Tensors finite;
  for (const WideInput& i : in) finite.push_back(i.finite.defined() ? i.finite : i.magnitude);
  const at::Tensor summed = apply_magnitudes(with_factors(op, 1, greatest(c10::ScalarType::Double)), effects,
                                             writable(op, std::move(finite)))[effect];
  // Of finite magnitudes only one that overflows, times zero, makes a NaN.
  const at::Tensor range = at::where(at::isnan(summed), infinite(), summed);
  if (family.name != "mean") return range.clamp_min(greatest_scaled_input(op, in));
  // It sums before it divides.
  return at::mul(range, static_cast<double>(in[0].value.numel()) /
                            static_cast<double>(std::max<int64_t>(1, range.numel())));
}

// Of finite inputs only what overflows on the way makes a NaN: a difference of two infinities, or one times
// zero. Where an input is none, or the op has no answer for such a shape, the NaN is the answer in any order.
at::Tensor range_of_moments(const RecordedOp& op, const std::vector<Effect>& effects,
                            const std::vector<WideInput>& in, size_t effect, const at::Tensor& magnitude) {
  Tensors holes;
  for (const WideInput& i : in)
    holes.push_back(is_float(i.value) ? at::mul(i.value, 0.0)
                                      : i.value);  // NaN where the input is not finite
  const at::Tensor given = at::isnan(apply_f64(op, effects, std::move(holes))[effect]);
  return at::where(at::logical_and(at::isnan(magnitude), at::logical_not(given)), infinite(), magnitude);
}

// How large partial results may become by finite terms alone.
at::Tensor range_of(const OpFamily& family, const RecordedOp& op, const std::vector<Effect>& effects,
                    const std::vector<WideInput>& in, size_t effect, const Reference& reference) {
  switch (family.bound) {
    case Bound::kLinear:
      return range_of_linear(family, op, effects, in, effect);
    case Bound::kSoftmaxBackward:
    case Bound::kLogSoftmaxBackward:
      return at::sum(finite_only(in[0].magnitude, 0), {dim_of(op)}, true);
    case Bound::kRelative:
      return is_norm(family) ? reference.magnitude.square() : reference.magnitude;
    case Bound::kVariance:
    case Bound::kLayerNorm:
    case Bound::kRmsNorm:
      return range_of_moments(op, effects, in, effect, reference.magnitude);
    default:
      return reference.magnitude;
  }
}

// Of a product: the product of all factors above one, or anything if that of those below one vanishes.
at::Tensor product_range(const RecordedOp& op, const std::vector<Effect>& effects, const WideInput& in,
                         c10::ScalarType dtype) {
  const at::Tensor factors = finite_only(in.magnitude, 1);
  const at::Tensor above = apply_f64(op, effects, {factors.clamp_min(1)})[0];
  const at::Tensor nonzero = at::where(at::eq(factors, 0), at::ones({}, factors.options()), factors);
  const at::Tensor below = apply_f64(op, effects, {nonzero.clamp_max(1)})[0];
  const double tiny = 1 / greatest(dtype);
  return at::where(at::lt(below, tiny), infinite(), above);
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
  WideInput result;
  result.value = fold_terms(std::move(doubles), ops, sizes);
  result.magnitude = fold_terms(positive, ops, sizes);
  const bool averages = std::find(ops.begin(), ops.end(), ReduceOp::kAvg) != ops.end();
  if (!is_float(result.magnitude) || (!averages && all_finite(result.magnitude))) return result;
  for (at::Tensor& t : positive) t = finite_only(t, 0);
  // An average sums before it divides.
  auto sums = ops;
  std::replace(sums.begin(), sums.end(), ReduceOp::kAvg, ReduceOp::kSum);
  result.finite = fold_terms(std::move(positive), sums, sizes);
  return result;
}

std::vector<Reference> references(const OpFamily& family, const RecordedOp& op,
                                  const std::vector<Effect>& effects, const std::vector<WideInput>& inputs) {
  const Tensors exact = apply_f64(op, effects, writable(op, parts(inputs, &WideInput::value)));
  const Tensors sizes = magnitudes_by(family, op, effects, inputs, exact);
  const int64_t roundings = roundings_of(family, inputs, exact);
  std::vector<Reference> result;
  for (size_t i = 0; i < exact.size(); ++i) {
    const auto dtype = effects[i].window.dtype;
    Reference r;
    r.value = exact[i];
    r.magnitude = sizes.at(i);
    if (r.magnitude.defined()) {
      r.factor = factor_of(family, roundings, dtype);
      r.floor = static_cast<double>(roundings) * smallest(dtype);
      if (family.bound == Bound::kLinear) r.lost = lost_by_factors(op, effects, inputs, i, dtype);
      if (is_norm(family)) r.lost = lost_by_powers(op, exact[i], roundings, dtype);
      r.order_free = family.name == "prod";
      r.range = r.order_free ? product_range(op, effects, inputs[0], dtype)
                             : range_of(family, op, effects, inputs, i, r);
    }
    result.push_back(std::move(r));
  }
  return result;
}

// Of a fold: the sum of the finite magnitudes, or the product of those above one.
static at::Tensor finite_range(const std::vector<at::Tensor>& terms, std::vector<ReduceOp> ops,
                               const std::vector<int64_t>& sizes) {
  const bool product = std::find(ops.begin(), ops.end(), ReduceOp::kProduct) != ops.end();
  // An average sums before it divides.
  std::replace(ops.begin(), ops.end(), ReduceOp::kAvg, ReduceOp::kSum);
  Tensors finite, small;
  for (const at::Tensor& t : terms) {
    const at::Tensor f = finite_only(wide(t).abs(), product ? 1 : 0);
    finite.push_back(product ? f.clamp_min(1) : f);
    if (product) small.push_back(at::where(at::eq(f, 0), at::ones({}, f.options()), f).clamp_max(1));
  }
  at::Tensor range = fold_terms(std::move(finite), ops, sizes);
  if (!product) return range;
  const at::Tensor vanishes =
      at::lt(fold_terms(std::move(small), ops, sizes), 1 / greatest(terms[0].scalar_type()));
  return at::where(vanishes, infinite(), range);
}

Reference fold_reference(const std::vector<at::Tensor>& terms, const std::vector<ReduceOp>& ops,
                         const std::vector<int64_t>& sizes, const std::vector<FoldLevel>& levels,
                         c10::ScalarType dtype) {
  const WideInput folded = widen(terms, ops, sizes);
  Reference r;
  r.value = folded.value;
  for (const FoldLevel& level : levels) {
    if (level.op == ReduceOp::kMax || level.op == ReduceOp::kMin) continue;
    r.magnitude = folded.magnitude;
    r.range = finite_range(terms, ops, sizes);
    r.order_free |= level.op == ReduceOp::kProduct;
    r.factor += static_cast<double>(level.terms) * unit_roundoff(level.dtype) + unit_roundoff(dtype);
    r.floor += static_cast<double>(level.terms) * smallest(level.dtype) + smallest(dtype);
  }
  if (r.factor > 0)
    r.factor = r.factor / std::max(0.5, 1 - r.factor) + 64 * unit_roundoff(c10::ScalarType::Double);
  return r;
}

Judged judge(const at::Tensor& actual, const at::Tensor& plain, const Reference& reference) {
  Judged judged;
  const double most = greatest(plain.scalar_type());
  const auto dense = [&](const at::Tensor& t) {
    return t.defined() ? t.to(at::kDouble).expand(actual.sizes()).contiguous()
                       : at::zeros(actual.sizes(), at::kDouble);
  };
  const at::Tensor range = reference.range.defined() ? reference.range : reference.magnitude;
  const at::Tensor bound = at::add(
      at::add(at::mul(dense(reference.magnitude), reference.factor), reference.floor), dense(reference.lost));
  const std::array<at::Tensor, 5> parts = {dense(actual), dense(reference.value), dense(plain), bound,
                                           dense(range)};
  std::array<const double*, 5> at{};
  for (size_t k = 0; k < parts.size(); ++k) at[k] = parts[k].const_data_ptr<double>();
  const at::Tensor unknown =
      reference.unknown.defined() ? reference.unknown.expand(actual.sizes()).contiguous() : at::Tensor();
  for (int64_t i = 0; i < actual.numel(); ++i) {
    if (unknown.defined() && unknown.const_data_ptr<bool>()[i]) continue;
    const Element e{at[0][i], at[1][i], at[2][i], at[3][i], at[4][i]};
    const Within w = judge_element(e, reference, most);
    if (std::isfinite(e.actual - e.expected))
      judged.worst = std::max(judged.worst, std::abs(e.actual - e.expected));
    if (w <= judged.within) continue;
    judged.within = w;
    judged.index = unravel(i, actual.sizes());
    judged.actual = e.actual;
    judged.expected = e.expected;
    judged.bound = e.bound;
  }
  return judged;
}

}  // namespace lockstep::oracle
