// SPDX-License-Identifier: Apache-2.0
#include "engine/random/tensor_source.h"

#include <ATen/ATen.h>

#include "engine/random/compounds.h"
#include "engine/random/integer_range.h"

namespace lockstep {
namespace {

Extents extents(const at::Tensor& t) {
  return {t.sizes().vec(), t.strides().vec()};
}

RandomCall filling(RandomKind kind, const at::Tensor& out) {
  return {
      .kind = kind, .dtype = out.scalar_type(), .shape = out.sizes().vec(), .stride = out.strides().vec()};
}

}  // namespace

void TensorSource::draw(const RandomCall& call, const at::Tensor& out, Generator& now) {
  if (out.numel() > 0) fill(call, out, now.device, now.state);
}

at::Tensor TensorSource::drawn(const RandomCall& call, Generator& now) {
  auto out = at::empty_strided(call.shape, call.stride, at::TensorOptions(call.dtype));
  draw(call, out, now);
  return out;
}

void TensorSource::integers(const at::Tensor& out, int64_t from, std::optional<int64_t> to, Generator& now) {
  const auto range = integer_range(out.scalar_type(), from, to);
  auto call = filling(range.kind, out);
  call.low = range.low;
  call.high = range.high;
  draw(call, out, now);
}

at::Tensor TensorSource::bernoulli(const at::Tensor& self, const at::Tensor& p, Generator& now) {
  const auto u = drawn(bernoulli_call(extents(self), self.scalar_type(), extents(p)), now);
  return bernoulli_hits(u, p).to(u.scalar_type());
}

void TensorSource::normal(const at::Tensor& out, const Parameter& mean, const Parameter& std,
                          Generator& now) {
  auto call = filling(RandomKind::kNormal, out);
  const auto* scale = std::get_if<at::Tensor>(&std);
  call.b = scale == nullptr ? std::get<double>(std) : 1;
  out.copy_(drawn(call, now));
  if (scale != nullptr) out.mul_(*scale);
  const auto* shift = std::get_if<at::Tensor>(&mean);
  out.add_(shift == nullptr ? at::full({}, std::get<double>(mean), out.options()) : *shift);
}

Dropped TensorSource::dropout(const at::Tensor& input, double p, Generator& now) {
  const auto bools = input.options().dtype(at::kBool);
  if (p == 1) return {at::zeros_like(input), at::full_like(input, false, bools), 0.0};
  if (p == 0) return {input.clone(), at::full_like(input, true, bools), 1.0};
  auto call = filling(RandomKind::kDropoutMask, input);
  call.a = p;
  const auto mask = at::empty_like(input, bools);
  draw(call, mask, now);
  return {at::empty_like(input).copy_(dropped(input, mask, p)), mask, 1.0 / (1.0 - p)};  // strides as stock's
}

at::Tensor TensorSource::rrelu(const at::Tensor& input, const at::Tensor& noise, double lower, double upper,
                               Generator& now) {
  const auto slopes = drawn(rrelu_call(input.sizes().vec(), input.scalar_type(), lower, upper), now);
  noise.copy_(rrelu_noise(input, slopes));
  return input.mul(noise).contiguous();  // as stock's output
}

at::Tensor TensorSource::multinomial(const at::Tensor& weights, int64_t samples, bool replacement,
                                     Generator& now) {
  const auto like = at::empty_like(weights);  // as stock's: without gaps
  const auto call = multinomial_call(extents(like), weights.scalar_type(), samples, replacement);
  return multinomial_pick(weights, drawn(call, now), samples, replacement);
}

}  // namespace lockstep
