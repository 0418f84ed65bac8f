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
#include <map>

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

// Within it, factories that composite ops call make replicated DTensors of this mesh.
class FactoryScope {
 public:
  explicit FactoryScope(CommPtr comm)
      : include_(c10::DispatchKey::Fake), comm_(&Context::factories, std::move(comm)) {}

 private:
  c10::impl::IncludeDispatchKeyGuard include_;
  Within<CommPtr> comm_;
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

// Whether the op is composed of others, gives no tensor that it is called with another name and writes none:
// what it views and writes is its own.
bool keeps_to_itself(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto has = [&](c10::DispatchKey key) { return op.hasKernelForDispatchKey(key); };
  const auto is_named = [](const c10::Argument& arg) { return arg.alias_info() != nullptr; };
  const auto& arguments = schema.arguments();
  return has(c10::DispatchKey::CompositeImplicitAutograd) && !has(c10::DispatchKey::CPU) &&
         !has(c10::DispatchKey::CUDA) && std::none_of(arguments.begin(), arguments.end(), is_named) &&
         std::none_of(schema.returns().begin(), schema.returns().end(), is_named);
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

constexpr auto kWithFactories = std::to_array<std::string_view>(
    {"feature_dropout", "feature_alpha_dropout", "alpha_dropout", "feature_dropout_",
     "feature_alpha_dropout_", "alpha_dropout_", "dropout_", "value_selecting_reduction_backward"});
constexpr auto kWithOwnFactories = std::to_array<std::string_view>(
    {"one_hot", "trace_backward", "cummaxmin_backward", "masked_select_backward"});

// They read no values, of a DTensor or of any.
constexpr auto kOfMetadata =
    std::to_array<std::string_view>({"aten::is_same_size", "aten::_has_compatible_shallow_copy_type"});

// By name, with the overload.
using Kernels = std::map<std::string, torch::CppFunction (*)()>;

template <auto kernel>
torch::CppFunction boxed() {
  return torch::CppFunction::makeFromBoxedFunction<kernel>();
}

// Of every composite op that does not decompose as it is.
Kernels composite_kernels() {
  Kernels kernels;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (op && name.getNamespace() == "aten" && keeps_to_itself(*op))
      kernels[c10::toString(name)] = boxed<&with_own>;
  }
  const auto set = [&](std::string_view name, torch::CppFunction (*kernel)()) {
    kernels[concat("aten::", name)] = kernel;
  };
  for (const auto name : kOfMetadata) kernels.erase(std::string(name));
  for (const auto name : kWithFactories) set(name, boxed<&with_factories>);
  for (const auto name : kWithOwnFactories) set(name, boxed<&with_own_factories>);
  for (const auto& [name, remedy] : kSparse) kernels[std::string(name)] = boxed<&without_sparse>;
  set(
      "dropout", +[] { return torch::CppFunction(dropout); });
  set(
      "scaled_dot_product_attention", +[] { return torch::CppFunction(attention); });
  return kernels;
}

// Above autograd, and below it, where in InferenceMode a composite arrives whole.
void add_composites(torch::Library& m, const Kernels& kernels) {
  for (const auto& [name, kernel] : kernels) m.impl(name.c_str(), kernel());
}

}  // namespace

void register_composites() {
  static torch::Library fake(torch::Library::IMPL, "aten", c10::DispatchKey::Fake, __FILE__, __LINE__);
  const auto kernels = composite_kernels();
  add_composites(fake, kernels);
  for (const auto name : kOfMetadata) fake.impl(name.data(), torch::CppFunction::makeFallthrough());
  using c10::DispatchKey;
  static std::vector<torch::Library> of_devices;
  for (const auto key : {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA, DispatchKey::AutogradMeta}) {
    auto& autograd = of_devices.emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    add_composites(autograd, kernels);
    autograd.impl("cat", torch::CppFunction::makeFromBoxedFunction<&cat>());
  }
}

}  // namespace lockstep
