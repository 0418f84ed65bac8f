// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_compounds.h"

#include <ATen/ATen.h>

#include <limits>
#include <numeric>

#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep {
namespace {

RandomCall filling(RandomKind kind, c10::ScalarType dtype, std::vector<int64_t> shape) {
  RandomCall call;
  call.kind = kind;
  call.dtype = dtype;
  call.stride = contiguous_strides(shape);
  call.shape = std::move(shape);
  return call;
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

void check_probabilities(const at::Tensor& p) {
  LOCKSTEP_CHECK(p.is_floating_point(), "[aten::bernoulli_] probabilities of ", dtype_name(p.scalar_type()),
                 "; a floating dtype is needed");
  LOCKSTEP_CHECK(p.ge(0).logical_and(p.le(1)).all().item<bool>(),
                 "[aten::bernoulli_] a probability is not in [0, 1]");
}

void check_std(const char* op, double std) {
  LOCKSTEP_CHECK(std >= 0, "[", op, "] standard deviation ", std, "; std >= 0 is needed");
}

void check_stds(const at::Tensor& std) {
  LOCKSTEP_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(),
                 "[aten::normal] a standard deviation is negative; std >= 0 is needed");
}

RandomCall rrelu_call(std::vector<int64_t> shape, c10::ScalarType dtype, double lower, double upper) {
  LOCKSTEP_CHECK(lower <= upper, "[aten::rrelu_with_noise] lower ", lower, " and upper ", upper,
                 "; lower <= upper is needed");
  auto call = filling(RandomKind::kRreluNoise, dtype, std::move(shape));
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

void check_multinomial(const at::Tensor& weights, int64_t samples, bool replacement) {
  const char* op = "[aten::multinomial] ";
  LOCKSTEP_CHECK(weights.is_floating_point() && (weights.dim() == 1 || weights.dim() == 2), op,
                 "weights are ", dtype_name(weights.scalar_type()), weights.sizes(),
                 "; one or two dimensions of a floating dtype are needed");
  LOCKSTEP_CHECK(samples > 0 && (replacement || samples <= weights.size(-1)), op, "cannot draw ", samples,
                 " samples of ", weights.size(-1), replacement ? "" : " without replacement");
  LOCKSTEP_CHECK(weights.size(-1) <= 1 << 24, op, weights.size(-1), " categories are more than 2^24");
  if (weights.numel() == 0) return;
  const auto largest = std::numeric_limits<double>::infinity();
  LOCKSTEP_CHECK(weights.max().lt(largest).item<bool>() && weights.min().ge(0).item<bool>(), op,
                 "a weight is infinite, NaN or negative");
  LOCKSTEP_CHECK(weights.sum(-1).ne(0).all().item<bool>(), op, "the weights of a distribution sum to 0");
}

RandomCall randperm_call(int64_t n, c10::ScalarType dtype) {
  LOCKSTEP_CHECK(n >= 0, "[aten::randperm] n must not be negative, but is ", n);
  return filling(RandomKind::kRandperm, dtype, {n});
}

}  // namespace lockstep
