// SPDX-License-Identifier: Apache-2.0
// Random operators on plain tensors that make something of what they draw: checks and derivatives; the values
// are the source's.
#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_checks.h"
#include "engine/stream/random_mode.h"

namespace lockstep::random_mode {
namespace {

using Context = torch::autograd::AutogradContext;
using Variables = torch::autograd::variable_list;

// A value drawn with parameters a and, if given, b, whose gradients are zeros, as libtorch defines them.
struct DrawnFunction : torch::autograd::Function<DrawnFunction> {
  static at::Tensor forward(Context* ctx, const at::Tensor& a, const std::optional<at::Tensor>& b,
                            const std::function<at::Tensor()>& make) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["a"] = a.sizes();
    ctx->saved_data["b"] = b ? c10::IValue(b->sizes()) : c10::IValue();
    return make();
  }
  static Variables backward(Context* ctx, const Variables& grads) {
    const auto zeros = [&](const c10::IValue& shape) {
      return shape.isNone() || !grads[0].defined() ? at::Tensor()
                                                   : at::zeros(shape.toIntVector(), grads[0].options());
    };
    return {zeros(ctx->saved_data["a"]), zeros(ctx->saved_data["b"]), at::Tensor()};
  }
};

const at::Tensor* tensor_in(const Parameter& p) {
  return std::get_if<at::Tensor>(&p);
}
at::IntArrayRef sizes(const Parameter& p) {
  return tensor_in(p) == nullptr ? at::IntArrayRef() : tensor_in(p)->sizes();
}
bool requires_grad(const Parameter& p) {
  return tensor_in(p) != nullptr && tensor_in(p)->requires_grad();
}

void check_normal(const Parameter& std) {
  if (const auto* stds = tensor_in(std))
    check_stds(*stds);
  else
    check_std("aten::normal", std::get<double>(std));
}

// At least one of the two is a tensor.
at::Tensor normal(const Parameter& mean, const Parameter& std, const GivenGenerator&) {
  const auto *means = tensor_in(mean), *stds = tensor_in(std);
  const auto& like = means != nullptr ? *means : *stds;
  const auto make = [&] {
    check_normal(std);
    auto out = at::empty(at::infer_size(sizes(mean), sizes(std)), like.options().requires_grad(false),
                         at::MemoryFormat::Contiguous);
    source().normal(out, mean, std, generator());
    return out;
  };
  const bool both = means != nullptr && stds != nullptr;
  return DrawnFunction::apply(like, both ? std::optional(*stds) : std::nullopt, make);
}

// As in stock, a number for std counts as a tensor of out's shape.
at::Tensor& normal_out(const Parameter& mean, const Parameter& std, const GivenGenerator&, at::Tensor& out) {
  check_normal(std);
  const auto shape = at::infer_size(sizes(mean), tensor_in(std) == nullptr ? out.sizes() : sizes(std));
  const bool derived = out.requires_grad() || requires_grad(mean) || requires_grad(std);
  LOCKSTEP_CHECK(!derived || !at::GradMode::is_enabled(),
                 "[aten::normal] into out has no derivative; call it without out, or pass detached tensors");
  if (out.sizes() != at::IntArrayRef(shape)) out.resize_(shape);
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

at::Tensor& bernoulli_tensor_(at::Tensor& self, const at::Tensor& p, const GivenGenerator&) {
  if (self.numel() == 0) return self;
  const auto make = [&] {
    check_probabilities(p);
    return source().bernoulli(self, p, generator());
  };
  return self.copy_(DrawnFunction::apply(p, std::optional<at::Tensor>(), make));
}

at::Tensor multinomial(const at::Tensor& weights, const c10::SymInt& samples, bool replacement,
                       const GivenGenerator&) {
  const at::NoGradGuard no_grad;
  const auto n = samples.expect_int();
  check_multinomial(weights, n, replacement);
  return source().multinomial(weights, n, replacement, generator());
}

at::Tensor& multinomial_out(const at::Tensor& weights, const c10::SymInt& samples, bool replacement,
                            const GivenGenerator& given, at::Tensor& out) {
  const auto picked = multinomial(weights, samples, replacement, given);
  out.resize_(picked.sizes());
  return out.copy_(picked);
}

at::Tensor& randperm_out(const c10::SymInt& n, const GivenGenerator&, at::Tensor& out) {
  check_permutation(n.expect_int());
  out.resize_({n.expect_int()});
  auto call = call_on(RandomKind::kRandperm, out);
  call.stride = {1};
  return out.copy_(drawn(call, out.options()));
}

at::Tensor rrelu(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                 bool, const GivenGenerator&) {
  return drawn_rrelu(self, noise, lower.toDouble(), upper.toDouble());
}
at::Tensor& rrelu_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower, const at::Scalar& upper,
                   bool, const GivenGenerator&) {
  return self.copy_(drawn_rrelu(self.clone(), noise, lower.toDouble(), upper.toDouble()));
}
bool trains(const at::Tensor&, const at::Tensor&, const at::Scalar&, const at::Scalar&, bool training,
            const GivenGenerator&) {
  return training;
}

}  // namespace

void serve_compounds(torch::Library& library) {
  serve<at::_ops::bernoulli__Tensor, bernoulli_tensor_>(library);
  serve<at::_ops::normal_Tensor_float, normal>(library);
  serve<at::_ops::normal_float_Tensor, normal>(library);
  serve<at::_ops::normal_Tensor_Tensor, normal>(library);
  serve<at::_ops::normal_Tensor_float_out, normal_out>(library);
  serve<at::_ops::normal_float_Tensor_out, normal_out>(library);
  serve<at::_ops::normal_Tensor_Tensor_out, normal_out>(library);
  serve<at::_ops::multinomial, multinomial>(library);
  serve<at::_ops::multinomial_out, multinomial_out>(library);
  serve<at::_ops::randperm_generator_out, randperm_out>(library);
  serve<at::_ops::rrelu_with_noise, rrelu, trains>(library);
  serve<at::_ops::rrelu_with_noise_, rrelu_, trains>(library);
}

}  // namespace lockstep::random_mode
