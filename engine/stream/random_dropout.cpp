// SPDX-License-Identifier: Apache-2.0
// native_dropout and dropout as stock CUDA has them: which of them draws, and their derivative.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "engine/stream/random_mode.h"

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

std::tuple<at::Tensor, at::Tensor> native_dropout(const at::Tensor& input, double p,
                                                  std::optional<bool> train) {
  LOCKSTEP_CHECK(p >= 0 && p <= 1, "[aten::native_dropout] probability ", p, " is not in [0, 1]");
  auto outputs = DropoutFunction::apply(input, p, train.has_value());
  return {outputs[0], outputs[1]};
}
bool trains(const at::Tensor&, double, std::optional<bool> train) {
  return train.value_or(true);
}

at::Tensor dropout(const at::Tensor& input, double p, bool) {
  return std::get<0>(at::native_dropout(input, p, true));  // by its name, so that a recording sees it
}
// Stock CUDA takes the fused kernel for 0 < p < 1 in training; otherwise the composite, which draws nothing.
bool is_fused(const at::Tensor& input, double p, bool train) {
  return train && p > 0 && p < 1 && input.numel() > 0;
}

}  // namespace

void serve_dropouts(torch::Library& library) {
  serve<at::_ops::native_dropout, native_dropout, trains>(library);
  serve<at::_ops::dropout, dropout, is_fused>(library);
}

}  // namespace lockstep::random_mode
