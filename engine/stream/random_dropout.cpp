// SPDX-License-Identifier: Apache-2.0
// native_dropout and dropout as stock CUDA has them.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_kernels.h"
#include "engine/values/error.h"

namespace lockstep::random_mode {
namespace {

// The mask of stock CUDA's native_dropout: true where the element is kept.
at::Tensor keep_mask(const at::Tensor& input, double p) {
  auto call = call_on(RandomKind::kDropoutMask, input);
  call.a = p;
  auto mask = at::empty_like(input, input.options().dtype(at::kBool));
  draw(call, mask);
  return mask;
}

// y = T((x * m) * (1 / P)) in the accumulation type of stock CUDA: double for double, float for the others.
at::Tensor drop(const at::Tensor& input, const at::Tensor& mask, double p) {
  const bool is_double = input.scalar_type() == at::kDouble;
  const double inverse = is_double ? 1.0 / (1.0 - p) : 1.0F / static_cast<float>(1.0 - p);
  const auto wide = is_double ? at::kDouble : at::kFloat;
  return at::empty_like(input).copy_(input.to(wide).mul(mask.to(wide)).mul_(inverse));  // strides as stock's
}

// native_dropout with the derivative that libtorch gives it.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static Variables forward(Context* ctx, const at::Tensor& input, double p, bool known_training) {
    const bool all_dropped = p == 1, all_kept = p == 0;
    const auto bools = input.options().dtype(at::kBool);
    auto mask = all_dropped || all_kept ? at::full_like(input, all_kept, bools) : keep_mask(input, p);
    auto output = all_dropped ? at::zeros_like(input) : all_kept ? input.clone() : drop(input, mask, p);
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({mask});
    ctx->mark_non_differentiable({mask});
    ctx->saved_data["scale"] = !known_training ? 1.0 : all_dropped ? 0.0 : 1.0 / (1.0 - p);
    return {output, mask};
  }

  static Variables backward(Context* ctx, const Variables& grads) {
    const auto mask = ctx->get_saved_variables()[0];
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto& grad = grads[0];
    if (!grad.defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    // libtorch: native_dropout_backward, or its infinitely differentiable form under create_graph.
    auto result = at::GradMode::is_enabled() ? grad * (mask.type_as(grad) * scale)
                                             : at::native_dropout_backward(grad, mask, scale);
    return {result, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::tuple<at::Tensor, at::Tensor> native_dropout(Keys keys, const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  const bool evaluates = train && !*train;
  if (passes(keys) || evaluates) return at::_ops::native_dropout::redispatch(keys & kBelow, input, p, train);
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::native_dropout] probability ", p, " is not in [0, 1]");
  auto outputs = DropoutFunction::apply(input, p, train.has_value());
  return {outputs[0], outputs[1]};
}

// Stock CUDA takes the fused kernel for 0 < p < 1 in training; otherwise the composite, which draws nothing.
at::Tensor dropout(Keys keys, const at::Tensor& input, double p, bool train) {
  const bool fused = train && p > 0 && p < 1 && input.numel() > 0;
  if (passes(keys) || !fused) return at::_ops::dropout::redispatch(keys & kBelow, input, p, train);
  return std::get<0>(at::native_dropout(input, p, true));  // by its name, so that a recording sees it
}

}  // namespace lockstep::random_mode
