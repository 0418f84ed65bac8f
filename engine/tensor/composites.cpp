// SPDX-License-Identifier: Apache-2.0
// Composite ops that must not decompose for a DTensor as they do for a plain CPU tensor.
#include <ATen/ATen.h>
#include <ATen/CompositeImplicitAutogradFunctions.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/tensor/factories.h"
#include "engine/tensor/gradients.h"
#include "engine/tensor/init.h"
#include "engine/values/refused.h"

namespace lockstep {
namespace {

using torch::jit::Stack;

// Within it, the tensors that ops view and write are a composite op's own, which nobody else sees: they may
// move.
struct CompositeScope : Within<bool> {
  CompositeScope() : Within(&Context::in_composite, true) {}
};

// CPU's dropout decomposes above Fake into bernoulli_; the single device that is reproduced calls
// native_dropout.
at::Tensor dropout(const at::Tensor& input, double p, bool train) {
  if (is_dtensor(input) && train && p > 0 && p < 1 && input.numel() > 0)
    return std::get<0>(at::native_dropout(input, p, true));
  return at::compositeimplicitautograd::dropout(input, p, train);
}

// A mask of booleans says what is attended to; as numbers, which the decomposed attention adds, it masks
// nothing.
std::optional<at::Tensor> added(const std::optional<at::Tensor>& mask, at::ScalarType dtype) {
  if (!mask || !mask->defined() || mask->scalar_type() != at::kBool) return mask;
  return at::where(*mask, 0.0,
                   at::scalar_tensor(-std::numeric_limits<double>::infinity(), mask->options().dtype(dtype)));
}

// The decomposed attention: CPU's fused kernel has no rule.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout_p, bool causal,
                     std::optional<double> scale, bool gqa) {
  if (const auto* impl = dtensor_impl(query)) {
    const FactoryScope factories(impl->comm());
    const CompositeScope own;
    return std::get<0>(at::_scaled_dot_product_attention_math(
        query, key, value, added(mask, query.scalar_type()), dropout_p, causal, std::nullopt, scale, gqa));
  }
  return at::compositeimplicitautograd::scaled_dot_product_attention(query, key, value, mask, dropout_p,
                                                                     causal, scale, gqa);
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
    const auto of = held_in(ctx->saved_data["of"]);
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

// A drawn number's gradients for its mean and deviation are zeros that autograd makes of sizes alone.
void normal(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  for (size_t i = stack->size() - op.schema().arguments().size(); i < stack->size(); ++i)
    if (auto& value = (*stack)[i];
        value.isTensor() && is_dtensor(value.toTensor()) && value.toTensor().requires_grad())
      value = KeepDistributed::apply(value.toTensor());
  op.callBoxedForDispatchKey(c10::DispatchKey::Autograd, *stack);
}

// CPU's own, for what has no history, reads memory.
at::Tensor max_pool1d(const at::Tensor& self, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil) {
  if (!is_dtensor(self))
    return at::compositeimplicitautograd::max_pool1d(self, kernel, stride, padding, dilation, ceil);
  const CompositeScope own;
  return std::get<0>(at::max_pool1d_with_indices(self, kernel, stride, padding, dilation, ceil));
}

// It reads the memory of what says where to split.
std::vector<at::Tensor> tensor_split(const at::Tensor& self, const at::Tensor& where, int64_t dim) {
  if (const auto* impl = dtensor_impl(where))
    throw Refused(Refusal::kNoRule, "aten::tensor_split", to_string(*impl->spec()),
                  concat("reads on the host where to split, of ", *impl->spec(), "; "),
                  "give it full_tensor() of that, or a list of integers");
  return at::compositeimplicitautograd::tensor_split(self, where, dim);
}

// Ops that view and write tensors of their own.
void with_own(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const CompositeScope own;
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// Ops that make a tensor by a factory, which for a DTensor must be one too, whole on every rank: the noise of
// the dropouts other than dropout itself, so that its numbers are those of the single device, and the zeros
// into which the gradient of selected values is scattered.
void with_factories(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto input = (*stack)[stack->size() - op.schema().arguments().size()].toTensor();
  std::optional<FactoryScope> factories;
  if (const auto* impl = dtensor_impl(input)) factories.emplace(impl->comm());
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// Ops of which both is true: one_hot writes ones into zeros that it makes, and some gradients their values.
void with_own_factories(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const CompositeScope own;
  with_factories(op, keys, stack);
}

// Ops that make a sparse tensor of what they are given, most of them gradients, and what to do instead.
struct Sparse {
  std::string_view op, remedy;
};
constexpr auto kSparse = std::to_array<Sparse>({
    {"aten::_gather_sparse_backward", "call gather with sparse_grad=false"},
    {"aten::embedding_sparse_backward", "call embedding with sparse=false"},
    {"aten::_sparse_coo_tensor_unsafe", "make it of full_tensor()"},
    {"aten::_sparse_compressed_tensor_unsafe", "make it of full_tensor()"},
});

void without_sparse(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& name = op.schema().name();
  const auto* found = std::find_if(kSparse.begin(), kSparse.end(), [&](auto& s) { return s.op == name; });
  for (const auto& value : torch::jit::last(*stack, op.schema().arguments().size()))
    if (const auto* impl = value.isTensor() ? dtensor_impl(value.toTensor()) : nullptr)
      throw Refused(Refusal::kNoRule, name, to_string(*impl->spec()),
                    concat("makes a sparse tensor of ", *impl->spec(), ", and a DTensor is dense; "),
                    std::string(found->remedy));
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

// Above autograd, and below it, where in InferenceMode a composite arrives whole.
void add_composites(torch::Library& m) {
  m.impl("dropout", dropout);
  m.impl("scaled_dot_product_attention", attention);
  m.impl("max_pool1d", max_pool1d);
  m.impl("tensor_split.tensor_indices_or_sections", tensor_split);
  // No result of these is a view that they take of what they are given. Of other composites some are, which
  // no schema tells: einsum's, broadcast_tensors'.
  for (const auto* name : {"adaptive_avg_pool1d",
                           "avg_pool1d",
                           "conv1d",
                           "conv1d.padding",
                           "conv2d",
                           "conv2d.padding",
                           "conv3d",
                           "conv3d.padding",
                           "corrcoef",
                           "cosine_similarity",
                           "cov",
                           "cross_entropy_loss",
                           "cumulative_trapezoid.dx",
                           "cumulative_trapezoid.x",
                           "diff",
                           "gradient.array",
                           "gradient.scalararray",
                           "gradient.scalarint",
                           "gradient.scalarrayarray",
                           "gradient.scalarrayint",
                           "gradient.tensorarray",
                           "gradient.tensorarrayint",
                           "kron",
                           "linear",
                           "matmul",
                           "max_pool1d_with_indices",
                           "norm_except_dim",
                           "outer",
                           "prelu",
                           "rms_norm",
                           "tensordot"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_own>());
  for (const auto* name :
       {"feature_dropout", "feature_alpha_dropout", "alpha_dropout", "feature_dropout_",
        "feature_alpha_dropout_", "alpha_dropout_", "dropout_", "value_selecting_reduction_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_factories>());
  for (const auto* name :
       {"one_hot", "trace_backward", "cummaxmin_backward", "masked_select_backward", "quantile",
        "quantile.scalar", "nanquantile", "nanquantile.scalar", "trapezoid.dx", "trapezoid.x"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&with_own_factories>());
  for (const auto& [name, remedy] : kSparse)
    m.impl(name.data(), torch::CppFunction::makeFromBoxedFunction<&without_sparse>());
}

}  // namespace

void register_composites() {
  static torch::Library fake(torch::Library::IMPL, "aten", c10::DispatchKey::Fake, __FILE__, __LINE__);
  add_composites(fake);
  fake.impl("is_same_size", torch::CppFunction::makeFallthrough());
  fake.impl("_has_compatible_shallow_copy_type", torch::CppFunction::makeFallthrough());
  using c10::DispatchKey;
  static std::vector<torch::Library> of_devices;
  for (const auto key : {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA, DispatchKey::AutogradMeta}) {
    auto& autograd = of_devices.emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    add_composites(autograd);
    autograd.impl("cat", torch::CppFunction::makeFromBoxedFunction<&cat>());
    for (const auto* name : {"normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"})
      autograd.impl(name, torch::CppFunction::makeFromBoxedFunction<&normal>());
  }
}

}  // namespace lockstep
