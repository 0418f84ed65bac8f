// SPDX-License-Identifier: Apache-2.0
// native_dropout and dropout as stock CUDA has them: which of them draws, and their derivative.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_kernels.h"
#include "engine/values/error.h"

namespace lockstep::random_mode {
namespace {

// native_dropout with the derivative that libtorch gives it.
struct DropoutFunction : torch::autograd::Function<DropoutFunction> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static Variables forward(Context* ctx, const at::Tensor& input, double p, bool known_training) {
    auto dropped = source().dropout(input, p, generator());
    ctx->set_materialize_grads(false);
    ctx->save_for_backward({dropped.mask});
    ctx->mark_non_differentiable({dropped.mask});
    ctx->saved_data["scale"] = known_training ? dropped.scale : 1.0;
    return {dropped.output, dropped.mask};
  }

  static Variables backward(Context* ctx, const Variables& grads) {
    const auto mask = ctx->get_saved_variables()[0];
    const double scale = ctx->saved_data["scale"].toDouble();
    const auto& grad = grads[0];
    if (!grad.defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    // libtorch's, which a distributed tensor gets from libtorch itself: native_dropout_backward, or its
    // infinitely differentiable form under create_graph, which no library exports.
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
