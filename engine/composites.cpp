// SPDX-License-Identifier: Apache-2.0
#include "engine/composites.h"

#include <ATen/ATen.h>
#include <ATen/TensorUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "engine/decide.h"
#include "engine/explicit_redistribution.h"
#include "engine/gradients.h"
#include "engine/redistribute.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

// Set while a composite op reshapes tensors of its own, which nobody else sees.
thread_local bool g_reshape_may_move = false;

// CPU's dropout decomposes above Fake into bernoulli_; the single device that is reproduced calls
// native_dropout.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  if (is_dtensor(input) && train && p > 0 && p < 1 && input.numel() > 0)
    return std::get<0>(at::native_dropout(input, p, true));
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::dropout", "");
  Stack stack{input, p, train};
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
  return stack[0].toTensor();
}

// Whether a view of this shape keeps its input where it is.
bool view_stays(const DTensorImpl& impl, const std::vector<int64_t>& shape) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::view", "");
  const auto& spec = *impl.spec();
  Operands operands{
      {impl.spec()}, {{true, false, false, spec.shape(), spec.stride(), spec.dtype(), 0}}, {false}, {0}};
  const TensorMeta out{true, false, false, shape, contiguous_strides(shape), spec.dtype(), 0};
  return legal_without_moving(op, resolve(op), operands, {c10::IValue(), shape}, {out});
}

// The decomposed attention: CPU's fused kernel has no rule.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout_p, bool causal,
                     std::optional<double> scale, bool gqa) {
  if (const auto* impl = dtensor_impl(query)) {
    FactoryScope scope(impl->comm());
    return std::get<0>(at::_scaled_dot_product_attention_math(query, key, value, mask, dropout_p, causal,
                                                              std::nullopt, scale, gqa));
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::scaled_dot_product_attention", "");
  Stack stack{query, key, value, mask, dropout_p, causal, scale, gqa};
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
  return stack[0].toTensor();
}

// Scatters into zeros that it makes from the gradient's options.
at::Tensor selected_value_backward(const at::Tensor& grad, int64_t dim, const at::Tensor& indices,
                                   at::IntArrayRef sizes, bool keepdim) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::value_selecting_reduction_backward", "");
  Stack stack{grad, dim, indices, sizes, keepdim};
  std::optional<FactoryScope> scope;
  if (const auto* impl = dtensor_impl(grad)) scope.emplace(impl->comm());
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
  return stack[0].toTensor();
}

// A DTensor whose gradient is one too, whatever autograd makes of it.
struct KeepDistributed : torch::autograd::Function<KeepDistributed> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& input) {
    ctx->set_materialize_grads(false);
    const auto* impl = dtensor_impl(input);
    ctx->saved_data["of"] = hold(impl->spec(), impl->comm());
    return input.alias();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    if (!grads[0].defined() || is_dtensor(grads[0])) return grads;
    const auto of = held(ctx->saved_data["of"]);
    return {settled(grads[0], of->spec, of->comm)};
  }
};

// cat ignores empty vectors and makes their gradients from nothing.
void cat(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  auto& list = (*stack)[stack->size() - 2];
  auto tensors = list.toTensorVector();
  std::unordered_map<const c10::TensorImpl*, at::Tensor> kept;  // one for a tensor that stands there twice
  for (auto& t : tensors) {
    if (!is_dtensor(t) || !t.requires_grad() || t.sizes() != at::IntArrayRef{0}) continue;
    auto& one = kept[t.unsafeGetTensorImpl()];
    if (!one.defined()) one = KeepDistributed::apply(t);
    t = one;
  }
  list = std::move(tensors);
  op.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
}

// Composite products of matrices reshape tensors of their own.
void product(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const bool previous = std::exchange(g_reshape_may_move, true);
  try {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
  } catch (...) {
    g_reshape_may_move = previous;
    throw;
  }
  g_reshape_may_move = previous;
}

std::vector<int64_t> inferred_shape(const at::Tensor& self, at::IntArrayRef shape) {
  auto result = shape.vec();
  int64_t known = 1;
  for (const int64_t n : result) known *= n < 0 ? 1 : n;
  for (auto& n : result)
    if (n < 0) n = known == 0 ? 0 : self.numel() / known;
  return result;
}

// reshape may copy, so where a view would have to move its tensor, it moves: to Replicate, then views.
at::Tensor reshape(const at::Tensor& self, at::IntArrayRef shape) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::reshape", "");
  const auto composite = [&](const at::Tensor& input) {
    Stack stack{input, shape};
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, stack);
    return stack[0].toTensor();
  };
  const auto* impl = dtensor_impl(self);
  // Where strides do not allow a view, the composite op copies, and the copy moves as it must. A user's
  // reshape that is a view on one device has to alias here too; that of a composite op may move, since nobody
  // else sees it.
  const bool views = impl != nullptr && g_reshape_may_move &&
                     at::detail::computeStride(self.sizes(), self.strides(), inferred_shape(self, shape));
  if (!views || explicit_redistribution_required() || view_stays(*impl, inferred_shape(self, shape)))
    return composite(self);
  auto whole = impl->spec()->placements();
  for (auto& p : whole)
    if (is_shard(p)) p = Replicate{};
  return composite(redistribute(self, whole));
}

}  // namespace

void link_composites() {}

TORCH_LIBRARY_IMPL(aten, Fake, m) {
  m.impl("is_same_size", torch::CppFunction::makeFallthrough());
  m.impl("_has_compatible_shallow_copy_type", torch::CppFunction::makeFallthrough());
  m.impl("dropout", dropout);
  m.impl("reshape", reshape);
  m.impl("matmul", torch::CppFunction::makeFromBoxedFunction<&product>());
  m.impl("linear", torch::CppFunction::makeFromBoxedFunction<&product>());
  m.impl("value_selecting_reduction_backward", selected_value_backward);
  m.impl("scaled_dot_product_attention", attention);
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
  m.impl("cat", torch::CppFunction::makeFromBoxedFunction<&cat>());
  m.impl("dropout", dropout);
  m.impl("reshape", reshape);
  m.impl("matmul", torch::CppFunction::makeFromBoxedFunction<&product>());
  m.impl("linear", torch::CppFunction::makeFromBoxedFunction<&product>());
  m.impl("value_selecting_reduction_backward", selected_value_backward);
  m.impl("scaled_dot_product_attention", attention);
}

}  // namespace lockstep
