// SPDX-License-Identifier: Apache-2.0
#include "engine/random/compounds.h"

#include <ATen/ATen.h>

#include <numeric>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

RandomCall filling(RandomKind kind, c10::ScalarType dtype, const std::vector<int64_t>& shape) {
  return {.kind = kind, .dtype = dtype, .shape = shape, .stride = contiguous_strides(shape)};
}

// The strides of p, broadcast to `shape`.
std::vector<int64_t> broadcast_strides(const Extents& p, const std::vector<int64_t>& shape) {
  LOCKSTEP_CHECK(p.shape.size() <= shape.size(), "[aten::bernoulli_] probabilities of shape ",
                 shape_text(p.shape), " for a tensor of shape ", shape_text(shape));
  std::vector<int64_t> result(shape.size(), 0);
  const size_t missing = shape.size() - p.shape.size();
  for (size_t d = 0; d < p.shape.size(); ++d)
    if (p.shape[d] != 1) result[missing + d] = p.stride[d];
  return result;
}

// Strides without gaps, the last dimension of `order` fastest.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape, const std::vector<size_t>& order) {
  std::vector<int64_t> result(shape.size(), 1);
  int64_t step = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    result[*d] = step;
    step *= std::max<int64_t>(shape[*d], 1);
  }
  return result;
}

// A pair of dimensions changes places where that makes the strides of one tensor fall and of none rise.
std::vector<size_t> common_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& a,
                                 const std::vector<int64_t>& b) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j) {
      const size_t x = order[i], y = order[j];
      if (shape[x] == 1 || shape[y] == 1) continue;
      const bool rises = a[x] < a[y] || b[x]<b[y], falls = a[x]> a[y] || b[x] > b[y];
      if (rises && !falls) std::swap(order[i], order[j]);
    }
  return order;
}

}  // namespace

RandomCall bernoulli_call(const Extents& out, c10::ScalarType dtype, const Extents& p) {
  const auto wide = dtype == c10::kDouble ? c10::kDouble : c10::kFloat;
  auto call = filling(RandomKind::kBernoulliUniform, wide, out.shape);
  call.stride =
      dense_strides(out.shape, common_order(out.shape, out.stride, broadcast_strides(p, out.shape)));
  return call;
}

at::Tensor bernoulli_hits(const at::Tensor& u, const at::Tensor& p) {
  return u.le(p.to(u.scalar_type()));
}

RandomCall rrelu_call(const std::vector<int64_t>& shape, c10::ScalarType dtype, double lower, double upper) {
  auto call = filling(RandomKind::kRreluNoise, dtype, shape);
  call.a = lower;
  call.b = upper;
  return call;
}

at::Tensor rrelu_noise(const at::Tensor& input, const at::Tensor& slopes) {
  return at::where(input.le(0), slopes, at::ones({}, slopes.options()));
}

RandomCall multinomial_call(const Extents& weights, c10::ScalarType dtype, int64_t samples,
                            bool replacement) {
  if (replacement && samples > 1) {
    const int64_t dists = weights.shape.size() == 1 ? 1 : weights.shape[0];
    return filling(RandomKind::kMultinomialUniform, c10::kFloat, {dists, samples});
  }
  auto call = filling(RandomKind::kExponential, dtype, weights.shape);
  call.stride = weights.stride;
  call.a = 1;
  return call;
}

at::Tensor multinomial_pick(const at::Tensor& weights, const at::Tensor& drawn, int64_t samples,
                            bool replacement) {
  if (samples == 1) return weights.div(drawn).argmax(-1, true);
  if (!replacement) return std::get<1>(weights.div(drawn).topk(samples));
  const auto rows = weights.dim() == 1 ? weights.unsqueeze(0) : weights;
  const auto shares = rows / rows.sum(-1, true);
  const auto last = rows.size(-1) - 1;
  // The first category whose cumulative share reaches u; if rounding left none, or its own share is 0, the
  // nearest before it with a share.
  const auto reached = at::searchsorted(shares.cumsum(-1), drawn.to(weights.scalar_type())).clamp_max(last);
  const auto places = at::arange(last + 1, reached.options()).expand_as(shares);
  const auto nearest = std::get<0>(places.mul(shares.gt(0)).cummax(-1));
  const auto picked = nearest.gather(-1, reached);
  return weights.dim() == 1 ? picked.squeeze(0) : picked;
}

at::Tensor dropped(const at::Tensor& x, const at::Tensor& keep, double p) {
  if (x.scalar_type() == at::kDouble) return x.mul(keep).mul(1.0 / (1.0 - p));
  const float scale = 1.0f / static_cast<float>(1.0 - p);
  const auto wide = x.to(at::kFloat);
  return wide.mul(keep).mul(scale).to(x.scalar_type());
}

}  // namespace lockstep
