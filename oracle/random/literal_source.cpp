// SPDX-License-Identifier: Apache-2.0
#include "oracle/random/literal_source.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "oracle/random/random_support.h"

namespace lockstep::oracle {
namespace {

using c10::ScalarType;

// A tensor's elements in logical order, exactly.
std::vector<double> elements(const at::Tensor& t) {
  const auto wide = t.to(at::kDouble).contiguous();
  const auto* data = wide.const_data_ptr<double>();
  return {data, data + wide.numel()};
}

double rounded(double x, ScalarType dtype) {
  if (dtype == ScalarType::Double) return x;
  const auto narrow = static_cast<float>(x);
  if (dtype == ScalarType::Half) return static_cast<float>(c10::Half(narrow));
  if (dtype == ScalarType::BFloat16) return static_cast<float>(c10::BFloat16(narrow));
  return narrow;
}

at::Tensor tensor_of(const std::vector<double>& elements, at::IntArrayRef shape, ScalarType dtype) {
  return at::tensor(elements, at::kDouble).reshape(shape).to(dtype);
}

RandomCall filling(RandomKind kind, ScalarType dtype, at::IntArrayRef shape, at::IntArrayRef stride) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.shape = shape.vec();
  call.stride = stride.vec();
  return call;
}
RandomCall filling(RandomKind kind, ScalarType dtype, at::IntArrayRef shape) {
  return filling(kind, dtype, shape, contiguous_strides(shape.vec()));
}

// ---- bernoulli_(P) ----

struct Dimension {
  size_t place;
  int64_t size, of_self, of_p;  // strides
};

// rearrangeDims: two dimensions are exchanged if a tensor's strides rise from one to the other and none's
// fall.
std::vector<Dimension> rearranged(const at::Tensor& self, const at::Tensor& p) {
  std::vector<Dimension> dims;
  for (int64_t d = 0; d < self.dim(); ++d)
    dims.push_back({static_cast<size_t>(d), self.size(d), self.stride(d), p.stride(d)});
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    if (dims[i].size == 1) continue;
    for (size_t j = i + 1; j < dims.size(); ++j) {
      if (dims[j].size == 1) continue;
      const auto &first = dims[i], &second = dims[j];
      const bool rise = first.of_self < second.of_self || first.of_p < second.of_p;
      const bool fall = first.of_self > second.of_self || first.of_p > second.of_p;
      if (rise && !fall) std::swap(dims[i], dims[j]);
    }
  }
  return dims;
}

// The strides by which the kernel numbers the elements.
std::vector<int64_t> numbering(const at::Tensor& self, const at::Tensor& p) {
  std::vector<int64_t> stride(static_cast<size_t>(self.dim()));
  int64_t inner = 1;
  auto dims = rearranged(self, p);
  for (; !dims.empty(); dims.pop_back()) {
    stride[dims.back().place] = inner;
    inner *= std::max<int64_t>(dims.back().size, 1);
  }
  return stride;
}

// ---- dropout ----

// fused_dropout_kernel: (x * m) * scale, where T is the accumulation type.
template <class T>
at::Tensor scaled(const at::Tensor& input, const at::Tensor& mask, T scale) {
  const auto x = input.to(c10::CppTypeToScalarType<T>::value).contiguous(), kept = mask.contiguous();
  auto y = at::empty(input.sizes(), x.options());
  const T* from = x.template const_data_ptr<T>();
  const bool* keep = kept.const_data_ptr<bool>();
  T* to = y.template mutable_data_ptr<T>();
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] * (keep[i] ? T(1) : T(0)) * scale;
  // Rounded in the order of memory: libtorch rounds a NaN to 16 bits otherwise where strides differ.
  return at::empty_like(input).copy_(at::empty_like(input, x.options()).copy_(y));
}

// ---- multinomial ----

// The first of the largest; a NaN counts as larger than all numbers.
size_t largest(const double* from, size_t count) {
  size_t best = 0;
  for (size_t i = 1; i < count; ++i)
    if (from[i] > from[best] || (std::isnan(from[i]) && !std::isnan(from[best]))) best = i;
  return best;
}

// sampleMultinomialWithReplacement: the first category whose cumulative share reaches u; if rounding left
// none, or its own share is 0, the nearest before it with a share.
size_t category(const double* shares, const double* cumulated, size_t count, double u) {
  size_t i = 0;
  while (i + 1 < count && cumulated[i] < u) ++i;
  while (i > 0 && !(shares[i] > 0)) --i;
  return i;
}

// With replacement. The order of the sums is stock's own, of the CPU.
at::Tensor searched(const at::Tensor& weights, const at::Tensor& u, int64_t samples) {
  const auto dtype = weights.scalar_type();
  const auto rows = weights.dim() == 1 ? weights.unsqueeze(0) : weights;
  const auto count = static_cast<size_t>(rows.size(1));
  auto shares = elements(rows);
  const auto sums = elements(rows.sum(-1));
  for (size_t i = 0; i < shares.size(); ++i) shares[i] = rounded(shares[i] / sums[i / count], dtype);
  const auto cumulated = elements(tensor_of(shares, rows.sizes(), dtype).cumsum(-1));
  const auto numbers = elements(u);
  std::vector<int64_t> picked;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto row = i / static_cast<size_t>(samples) * count;
    picked.push_back(static_cast<int64_t>(
        category(shares.data() + row, cumulated.data() + row, count, rounded(numbers[i], dtype))));
  }
  auto shape = weights.sizes().vec();
  shape.back() = samples;
  return at::tensor(picked, at::kLong).reshape(shape);
}

// The categories of the largest ratios; among equal ones of several samples the choice is stock's topk.
at::Tensor by_ratio(const at::Tensor& weights, const at::Tensor& exponential, int64_t samples) {
  auto ratios = elements(weights);
  const auto q = elements(exponential);
  for (size_t i = 0; i < q.size(); ++i) ratios[i] = rounded(ratios[i] / q[i], weights.scalar_type());
  if (samples > 1)
    return std::get<1>(tensor_of(ratios, weights.sizes(), weights.scalar_type()).topk(samples));
  const auto count = static_cast<size_t>(weights.size(-1));
  std::vector<int64_t> picked;
  for (size_t row = 0; row < ratios.size(); row += count)
    picked.push_back(static_cast<int64_t>(largest(ratios.data() + row, count)));
  auto shape = weights.sizes().vec();
  shape.back() = 1;
  return at::tensor(picked, at::kLong).reshape(shape);
}

}  // namespace

at::Tensor LiteralSource::draw(const RandomCall& call, Generator& now) {
  auto out = at::empty_strided(call.shape, call.stride, at::TensorOptions(call.dtype));
  if (out.numel() > 0) fill(call, out, now.device, now.state);
  return out;
}

void LiteralSource::integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) {
  const auto bounds = bounds_of_random(out.scalar_type(), from, to);
  const auto kind = bounds.all_bits ? RandomKind::kRandomBits : RandomKind::kRandint;
  auto call = filling(kind, out.scalar_type(), out.sizes(), out.strides());
  call.low = bounds.low;
  call.high = bounds.high;
  check_supported(call);
  if (out.numel() > 0) fill(call, out, now.device, now.state);
}

at::Tensor LiteralSource::bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) {
  const auto wide = self.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto limits = p.expand(self.sizes());
  const auto u = elements(
      draw(filling(RandomKind::kBernoulliUniform, wide, self.sizes(), numbering(self, limits)), now));
  auto hits = elements(limits);
  for (size_t i = 0; i < hits.size(); ++i) hits[i] = u[i] <= rounded(hits[i], wide) ? 1 : 0;
  return tensor_of(hits, self.sizes(), wide);
}

// normal_out_impl: numbers of mean 0, mul_ by std, add_ of the mean.
void LiteralSource::normal(const at::Tensor& out, const Parameter& mean, const Parameter& std,
                           Generator& now) {
  auto call = filling(RandomKind::kNormal, out.scalar_type(), out.sizes(), out.strides());
  const bool each = std::holds_alternative<at::Tensor>(std);
  call.b = each ? 1 : std::get<double>(std);
  out.copy_(draw(call, now));
  if (each) out.copy_(at::mul(out, std::get<at::Tensor>(std)));
  if (std::holds_alternative<at::Tensor>(mean))
    out.copy_(at::add(out, std::get<at::Tensor>(mean)));
  else
    out.copy_(at::add(out, tensor_of({std::get<double>(mean)}, {}, out.scalar_type())));
}

Dropped LiteralSource::dropout(const at::Tensor& input, double p, Generator& now) {
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  if (p == 0) return {input.clone(), mask.fill_(true), 1};
  if (p == 1) return {at::zeros_like(input), mask.fill_(false), 0};
  auto call = filling(RandomKind::kDropoutMask, input.scalar_type(), input.sizes(), input.strides());
  call.a = p;
  if (mask.numel() > 0) fill(call, mask, now.device, now.state);
  const double kept = 1.0 - p;
  auto output = input.scalar_type() == at::kDouble
                    ? scaled<double>(input, mask, 1.0 / kept)
                    : scaled<float>(input, mask, 1.0F / static_cast<float>(kept));
  return {output, mask, 1.0 / kept};
}

at::Tensor LiteralSource::rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                                Generator& now) {
  auto call = filling(RandomKind::kRreluNoise, input.scalar_type(), input.sizes());
  call.a = lower;
  call.b = upper;
  auto slopes = elements(draw(call, now));
  const auto x = elements(input);
  for (size_t i = 0; i < x.size(); ++i)
    if (!(x[i] <= 0)) slopes[i] = 1;
  noise.copy_(tensor_of(slopes, input.sizes(), input.scalar_type()));
  return at::mul(input, noise).contiguous();
}

at::Tensor LiteralSource::multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                                      Generator& now) {
  LOCKSTEP_CHECK(weights.size(-1) > 0, "[aten::multinomial] there are no categories; give one at least");
  if (replacement && samples > 1) {
    const int64_t rows = weights.dim() == 1 ? 1 : weights.size(0);
    return searched(weights, draw(filling(RandomKind::kMultinomialUniform, at::kFloat, {rows, samples}), now),
                    samples);
  }
  const auto q = at::empty_like(weights);  // as stock's: without gaps
  auto call = filling(RandomKind::kExponential, weights.scalar_type(), weights.sizes(), q.strides());
  call.a = 1;
  return by_ratio(weights, draw(call, now), samples);
}

}  // namespace lockstep::oracle
