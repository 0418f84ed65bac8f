// SPDX-License-Identifier: Apache-2.0
// Random operators that fill a tensor in place.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include "engine/stream/random_checks.h"
#include "engine/stream/random_kernels.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"

namespace lockstep::random_mode {
namespace {

// Fills `self` in place. copy_ is the operator whose autograd is that of a random fill: no gradient flows to
// what was there before, versions advance, a leaf that requires a gradient is refused.
at::Tensor& fill(at::Tensor& self, const RandomCall& call) {
  at::assert_no_internal_overlap(self);
  return self.copy_(drawn(call, self.options()));
}

// Fills with a distribution of two arguments.
at::Tensor& fill(RandomKind kind, at::Tensor& self, double a, double b) {
  auto call = call_on(kind, self);
  call.a = a;
  call.b = b;
  return fill(self, call);
}

at::Tensor& fill_integers(at::Tensor& self, int64_t from, std::optional<int64_t> to) {
  at::assert_no_internal_overlap(self);
  const auto numbers = at::empty_strided(self.sizes(), self.strides(), self.options().requires_grad(false));
  source().integers(numbers, from, to, generator());
  return self.copy_(numbers);
}

void check_floating(const char* op, const at::Tensor& self) {
  LOCKSTEP_CHECK(self.is_floating_point(), "[", op, "] into ", dtype_name(self.scalar_type()),
                 "; a floating dtype is needed");
}

}  // namespace

at::Tensor& uniform_(Keys keys, at::Tensor& self, double from, double to, GivenGenerator given) {
  if (passes(keys)) return at::_ops::uniform_::redispatch(keys & kBelow, self, from, to, std::move(given));
  check_generator("aten::uniform_", given);
  check_floating("aten::uniform_", self);
  LOCKSTEP_CHECK(from <= to, "[aten::uniform_] from ", from, " to ", to, "; from <= to is needed");
  return fill(RandomKind::kUniform, self, from, to);
}

at::Tensor& normal_(Keys keys, at::Tensor& self, double mean, double std, GivenGenerator given) {
  if (passes(keys)) return at::_ops::normal_::redispatch(keys & kBelow, self, mean, std, std::move(given));
  check_generator("aten::normal_", given);
  check_floating("aten::normal_", self);
  check_std("aten::normal_", std);
  return fill(RandomKind::kNormal, self, mean, std);
}

at::Tensor& log_normal_(Keys keys, at::Tensor& self, double mean, double std, GivenGenerator given) {
  if (passes(keys))
    return at::_ops::log_normal_::redispatch(keys & kBelow, self, mean, std, std::move(given));
  check_generator("aten::log_normal_", given);
  check_floating("aten::log_normal_", self);
  LOCKSTEP_CHECK(std > 0, "[aten::log_normal_] standard deviation ", std, "; std > 0 is needed");
  return fill(RandomKind::kLogNormal, self, mean, std);
}

at::Tensor& cauchy_(Keys keys, at::Tensor& self, double median, double sigma, GivenGenerator given) {
  if (passes(keys))
    return at::_ops::cauchy_::redispatch(keys & kBelow, self, median, sigma, std::move(given));
  check_generator("aten::cauchy_", given);
  check_floating("aten::cauchy_", self);
  LOCKSTEP_CHECK(sigma > 0, "[aten::cauchy_] sigma ", sigma, "; sigma > 0 is needed");
  return fill(RandomKind::kCauchy, self, median, sigma);
}

at::Tensor& exponential_(Keys keys, at::Tensor& self, double rate, GivenGenerator given) {
  if (passes(keys)) return at::_ops::exponential_::redispatch(keys & kBelow, self, rate, std::move(given));
  check_generator("aten::exponential_", given);
  check_floating("aten::exponential_", self);
  LOCKSTEP_CHECK(rate > 0, "[aten::exponential_] rate ", rate, "; rate > 0 is needed");
  return fill(RandomKind::kExponential, self, rate, 1);
}

at::Tensor& geometric_(Keys keys, at::Tensor& self, double p, GivenGenerator given) {
  if (passes(keys)) return at::_ops::geometric_::redispatch(keys & kBelow, self, p, std::move(given));
  check_generator("aten::geometric_", given);
  LOCKSTEP_CHECK(p > 0 && p < 1 && self.scalar_type() != at::kBool, "[aten::geometric_] probability ", p,
                 " into ", dtype_name(self.scalar_type()), "; 0 < p < 1 and a number are needed");
  return fill(RandomKind::kGeometric, self, p, 1);
}

at::Tensor& bernoulli_(Keys keys, at::Tensor& self, double p, GivenGenerator given) {
  if (passes(keys)) return at::_ops::bernoulli__float::redispatch(keys & kBelow, self, p, std::move(given));
  check_generator("aten::bernoulli_", given);
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::bernoulli_] probability ", p, " is not in [0, 1]");
  return fill(RandomKind::kBernoulli, self, p, 1);
}

at::Tensor& random_(Keys keys, at::Tensor& self, GivenGenerator given) {
  if (passes(keys)) return at::_ops::random_::redispatch(keys & kBelow, self, std::move(given));
  check_generator("aten::random_", given);
  return fill(self, call_on(RandomKind::kRandom, self));
}

at::Tensor& random_from(Keys keys, at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        GivenGenerator given) {
  if (passes(keys))
    return at::_ops::random__from::redispatch(keys & kBelow, self, from, to, std::move(given));
  check_generator("aten::random_", given);
  return fill_integers(self, from, to);
}

at::Tensor& random_to(Keys keys, at::Tensor& self, int64_t to, GivenGenerator given) {
  if (passes(keys)) return at::_ops::random__to::redispatch(keys & kBelow, self, to, std::move(given));
  check_generator("aten::random_", given);
  return fill_integers(self, 0, to);
}

}  // namespace lockstep::random_mode
