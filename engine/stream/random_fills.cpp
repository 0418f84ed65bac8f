// SPDX-License-Identifier: Apache-2.0
// Random operators that fill a tensor in place.
#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_checks.h"
#include "engine/stream/random_mode.h"
#include "engine/values/spec.h"

namespace lockstep::random_mode {
namespace {

// No gradient flows to what was there before: it is zeros that lie as the gradient does, as libtorch's is
// (copy_ would make contiguous ones), and none where none arrives. Versions advance, a leaf that requires a
// gradient is refused.
struct FillFunction : torch::autograd::Function<FillFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor self,
                            const at::Tensor& values) {
    ctx->set_materialize_grads(false);
    ctx->mark_dirty({self});
    self.copy_(values);
    return self;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 const torch::autograd::variable_list& grads) {
    return {grads[0].defined() ? at::zeros_like(grads[0]) : at::Tensor(), at::Tensor()};
  }
};

at::Tensor& overwrite(at::Tensor& self, const at::Tensor& values) {
  if (!at::GradMode::is_enabled() || !self.requires_grad()) return self.copy_(values);
  FillFunction::apply(self, values);
  return self;
}

// Fills `self` in place.
at::Tensor& fill(at::Tensor& self, const RandomCall& call) {
  at::assert_no_internal_overlap(self);
  return overwrite(self, drawn(call, self.options()));
}

// Fills with a distribution of two arguments.
at::Tensor& fill(RandomKind kind, at::Tensor& self, double a, double b) {
  auto call = call_on(kind, self);
  call.a = a;
  call.b = b;
  return fill(self, call);
}

void check_floating(const char* op, const at::Tensor& self) {
  LOCKSTEP_CHECK(self.is_floating_point(), "[", op, "] into ", dtype_name(self.scalar_type()),
                 "; a floating dtype is needed");
}

at::Tensor& uniform_(at::Tensor& self, double from, double to, const GivenGenerator&) {
  check_floating("aten::uniform_", self);
  LOCKSTEP_CHECK(from <= to, "[aten::uniform_] from ", from, " to ", to, "; from <= to is needed");
  return fill(RandomKind::kUniform, self, from, to);
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, const GivenGenerator&) {
  check_floating("aten::normal_", self);
  check_std("aten::normal_", std);
  return fill(RandomKind::kNormal, self, mean, std);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, const GivenGenerator&) {
  check_floating("aten::log_normal_", self);
  LOCKSTEP_CHECK(std > 0, "[aten::log_normal_] standard deviation ", std, "; std > 0 is needed");
  return fill(RandomKind::kLogNormal, self, mean, std);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, const GivenGenerator&) {
  check_floating("aten::cauchy_", self);
  LOCKSTEP_CHECK(sigma > 0, "[aten::cauchy_] sigma ", sigma, "; sigma > 0 is needed");
  return fill(RandomKind::kCauchy, self, median, sigma);
}

at::Tensor& exponential_(at::Tensor& self, double rate, const GivenGenerator&) {
  check_floating("aten::exponential_", self);
  LOCKSTEP_CHECK(rate > 0, "[aten::exponential_] rate ", rate, "; rate > 0 is needed");
  return fill(RandomKind::kExponential, self, rate, 1);
}

at::Tensor& geometric_(at::Tensor& self, double p, const GivenGenerator&) {
  LOCKSTEP_CHECK(p > 0 && p < 1 && self.scalar_type() != at::kBool, "[aten::geometric_] probability ", p,
                 " into ", dtype_name(self.scalar_type()), "; 0 < p < 1 and a number are needed");
  return fill(RandomKind::kGeometric, self, p, 1);
}

at::Tensor& bernoulli_(at::Tensor& self, double p, const GivenGenerator&) {
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::bernoulli_] probability ", p, " is not in [0, 1]");
  return fill(RandomKind::kBernoulli, self, p, 1);
}

at::Tensor& random_(at::Tensor& self, const GivenGenerator&) {
  return fill(self, call_on(RandomKind::kRandom, self));
}

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to, const GivenGenerator&) {
  at::assert_no_internal_overlap(self);
  const auto numbers = at::empty_strided(self.sizes(), self.strides(), self.options().requires_grad(false));
  source().integers(numbers, from, to, generator());
  return overwrite(self, numbers);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, const GivenGenerator& given) {
  return random_from(self, 0, to, given);
}

}  // namespace

void serve_fills(torch::Library& library) {
  serve<at::_ops::uniform_, uniform_>(library);
  serve<at::_ops::normal_, normal_>(library);
  serve<at::_ops::log_normal_, log_normal_>(library);
  serve<at::_ops::cauchy_, cauchy_>(library);
  serve<at::_ops::exponential_, exponential_>(library);
  serve<at::_ops::geometric_, geometric_>(library);
  serve<at::_ops::bernoulli__float, bernoulli_>(library);
  serve<at::_ops::random_, random_>(library);
  serve<at::_ops::random__from, random_from>(library);
  serve<at::_ops::random__to, random_to>(library);
}

}  // namespace lockstep::random_mode
