// SPDX-License-Identifier: Apache-2.0
// Random operators on plain tensors that make something of what they draw: checks and derivatives; the values
// are the source's.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_checks.h"
#include "engine/stream/random_kernels.h"
#include "engine/values/error.h"

namespace lockstep::random_mode {
namespace {

using Context = torch::autograd::AutogradContext;
using Variables = torch::autograd::variable_list;

// A value drawn with parameters a and, if given, b, whose gradients are zeros, as libtorch defines them.
struct DrawnFunction : torch::autograd::Function<DrawnFunction> {
  static at::Tensor forward(Context* ctx, const at::Tensor& a, const std::optional<at::Tensor>& b,
                            const std::function<at::Tensor()>& make) {
    ctx->saved_data["a"] = a.sizes();
    ctx->saved_data["b"] = b ? c10::IValue(b->sizes()) : c10::IValue();
    return make();
  }
  static Variables backward(Context* ctx, const Variables& grads) {
    const auto zeros = [&](const c10::IValue& shape) {
      return shape.isNone() ? at::Tensor() : at::zeros(shape.toIntVector(), grads[0].options());
    };
    return {zeros(ctx->saved_data["a"]), zeros(ctx->saved_data["b"]), at::Tensor()};
  }
};

at::Tensor normal_like(at::IntArrayRef shape, const at::Tensor& like, const Parameter& mean,
                       const Parameter& std) {
  auto out = at::empty(shape, like.options().requires_grad(false), at::MemoryFormat::Contiguous);
  source().normal(out, mean, std, generator());
  return out;
}

bool requires_grad(const Parameter& p) {
  const auto* tensor = std::get_if<at::Tensor>(&p);
  return tensor != nullptr && tensor->requires_grad();
}

at::Tensor& normal_into(at::Tensor& out, at::IntArrayRef shape, const Parameter& mean, const Parameter& std) {
  const bool derived = out.requires_grad() || requires_grad(mean) || requires_grad(std);
  LOCKSTEP_CHECK(!derived || !at::GradMode::is_enabled(),
                 "[aten::normal] into out has no derivative; call it without out, or pass detached tensors");
  if (out.sizes() != shape) out.resize_(shape);
  at::assert_no_internal_overlap(out);
  source().normal(out, mean, std, generator());
  return out;
}

// rrelu's derivative as libtorch's: the noise, or the mean slope if there is hardly a range.
struct RreluFunction : torch::autograd::Function<RreluFunction> {
  static at::Tensor forward(Context* ctx, const at::Tensor& self, const at::Tensor& noise, double lower,
                            double upper) {
    auto output = source().rrelu(self, noise, lower, upper, generator());
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({self, noise});
    ctx->saved_data["lower"] = lower;
    ctx->saved_data["upper"] = upper;
    return output;
  }
  static Variables backward(Context* ctx, const Variables& grads) {
    const auto saved = ctx->get_saved_variables();
    if (!grads[0].defined()) return Variables(4);
    const auto grad =
        at::rrelu_with_noise_backward(grads[0], saved[0], saved[1], ctx->saved_data["lower"].toDouble(),
                                      ctx->saved_data["upper"].toDouble(), true, false);
    return {grad, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

at::Tensor drawn_rrelu(const at::Tensor& self, at::Tensor& noise, double lower, double upper) {
  LOCKSTEP_CHECK(self.sizes() == noise.sizes() && self.scalar_type() == noise.scalar_type(),
                 "[aten::rrelu_with_noise] noise is ", noise.scalar_type(), noise.sizes(), " and the input ",
                 self.scalar_type(), self.sizes(), "; they must be alike");
  check_slopes(lower, upper);
  return RreluFunction::apply(self, noise, lower, upper);
}

}  // namespace

at::Tensor& bernoulli_tensor_(Keys keys, at::Tensor& self, const at::Tensor& p, GivenGenerator given) {
  if (passes(keys)) return at::_ops::bernoulli__Tensor::redispatch(keys & kBelow, self, p, std::move(given));
  check_generator("aten::bernoulli_", given);
  if (self.numel() == 0) return self;
  const auto make = [&] {
    check_probabilities(p);
    return source().bernoulli(self, p, generator());
  };
  return self.copy_(DrawnFunction::apply(p, std::optional<at::Tensor>(), make));
}

at::Tensor normal_of_means(Keys keys, const at::Tensor& mean, double std, GivenGenerator given) {
  if (passes(keys))
    return at::_ops::normal_Tensor_float::redispatch(keys & kBelow, mean, std, std::move(given));
  check_generator("aten::normal", given);
  check_std("aten::normal", std);
  const auto make = [&] { return normal_like(mean.sizes(), mean, mean, std); };
  return DrawnFunction::apply(mean, std::optional<at::Tensor>(), make);
}

at::Tensor normal_of_stds(Keys keys, double mean, const at::Tensor& std, GivenGenerator given) {
  if (passes(keys))
    return at::_ops::normal_float_Tensor::redispatch(keys & kBelow, mean, std, std::move(given));
  check_generator("aten::normal", given);
  const auto make = [&] {
    check_stds(std);
    return normal_like(std.sizes(), std, mean, std);
  };
  return DrawnFunction::apply(std, std::optional<at::Tensor>(), make);
}

at::Tensor normal_of_both(Keys keys, const at::Tensor& mean, const at::Tensor& std, GivenGenerator given) {
  if (passes(keys))
    return at::_ops::normal_Tensor_Tensor::redispatch(keys & kBelow, mean, std, std::move(given));
  check_generator("aten::normal", given);
  const auto make = [&] {
    check_stds(std);
    return normal_like(at::infer_size(mean.sizes(), std.sizes()), mean, mean, std);
  };
  return DrawnFunction::apply(mean, std::optional(std), make);
}

at::Tensor& normal_of_means_out(Keys keys, const at::Tensor& mean, double std, GivenGenerator given,
                                at::Tensor& out) {
  if (passes(keys))
    return at::_ops::normal_Tensor_float_out::redispatch(keys & kBelow, mean, std, std::move(given), out);
  check_generator("aten::normal", given);
  check_std("aten::normal", std);
  return normal_into(out, at::infer_size(mean.sizes(), out.sizes()), mean, std);
}

at::Tensor& normal_of_stds_out(Keys keys, double mean, const at::Tensor& std, GivenGenerator given,
                               at::Tensor& out) {
  if (passes(keys))
    return at::_ops::normal_float_Tensor_out::redispatch(keys & kBelow, mean, std, std::move(given), out);
  check_generator("aten::normal", given);
  check_stds(std);
  return normal_into(out, std.sizes(), mean, std);
}

at::Tensor& normal_of_both_out(Keys keys, const at::Tensor& mean, const at::Tensor& std, GivenGenerator given,
                               at::Tensor& out) {
  if (passes(keys))
    return at::_ops::normal_Tensor_Tensor_out::redispatch(keys & kBelow, mean, std, std::move(given), out);
  check_generator("aten::normal", given);
  check_stds(std);
  return normal_into(out, at::infer_size(mean.sizes(), std.sizes()), mean, std);
}

at::Tensor multinomial(Keys keys, const at::Tensor& weights, c10::SymInt samples, bool replacement,
                       GivenGenerator given) {
  if (passes(keys))
    return at::_ops::multinomial::redispatch(keys & kBelow, weights, samples, replacement, std::move(given));
  check_generator("aten::multinomial", given);
  const at::NoGradGuard no_grad;
  const auto n = samples.expect_int();
  check_multinomial(weights, n, replacement);
  return source().multinomial(weights, n, replacement, generator());
}

at::Tensor& multinomial_out(Keys keys, const at::Tensor& weights, c10::SymInt samples, bool replacement,
                            GivenGenerator given, at::Tensor& out) {
  if (passes(keys))
    return at::_ops::multinomial_out::redispatch(keys & kBelow, weights, samples, replacement,
                                                 std::move(given), out);
  const auto picked = multinomial(keys, weights, samples, replacement, std::move(given));
  out.resize_(picked.sizes());
  return out.copy_(picked);
}

at::Tensor& randperm_out(Keys keys, c10::SymInt n, GivenGenerator given, at::Tensor& out) {
  if (passes(keys))
    return at::_ops::randperm_generator_out::redispatch(keys & kBelow, n, std::move(given), out);
  check_generator("aten::randperm", given);
  check_permutation(n.expect_int());
  out.resize_({n.expect_int()});
  auto call = call_on(RandomKind::kRandperm, out);
  call.stride = {1};
  return out.copy_(drawn(call, out.options()));
}

at::Tensor rrelu(Keys keys, const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                 const at::Scalar& upper, bool training, GivenGenerator given) {
  if (passes(keys) || !training)
    return at::_ops::rrelu_with_noise::redispatch(keys & kBelow, self, noise, lower, upper, training,
                                                  std::move(given));
  check_generator("aten::rrelu_with_noise", given);
  return drawn_rrelu(self, noise, lower.toDouble(), upper.toDouble());
}

at::Tensor& rrelu_(Keys keys, at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                   const at::Scalar& upper, bool training, GivenGenerator given) {
  if (passes(keys) || !training)
    return at::_ops::rrelu_with_noise_::redispatch(keys & kBelow, self, noise, lower, upper, training,
                                                   std::move(given));
  check_generator("aten::rrelu_with_noise_", given);
  return self.copy_(drawn_rrelu(self.clone(), noise, lower.toDouble(), upper.toDouble()));
}

}  // namespace lockstep::random_mode
