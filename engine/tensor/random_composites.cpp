// SPDX-License-Identifier: Apache-2.0
// The dropouts other than dropout itself make a tensor of noise by a factory, which for a DTensor must be one
// too: whole on every rank, so that its numbers are those of the single device.
#include "engine/tensor/random_composites.h"

#include <torch/library.h>

#include <optional>

#include "engine/tensor/composites.h"
#include "engine/tensor/dtensor_impl.h"

namespace lockstep {
namespace {

constexpr const char* kDropouts[] = {"feature_dropout",  "feature_alpha_dropout",  "alpha_dropout",
                                     "feature_dropout_", "feature_alpha_dropout_", "alpha_dropout_",
                                     "dropout_"};

void composite(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto input = (*stack)[stack->size() - op.schema().arguments().size()].toTensor();
  std::optional<FactoryScope> factories;
  if (const auto* impl = dtensor_impl(input)) factories.emplace(impl->comm());
  op.callBoxedForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd, *stack);
}

}  // namespace

void link_random_composites() {}

TORCH_LIBRARY_IMPL(aten, Fake, m) {
  for (const auto* name : kDropouts) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&composite>());
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) {
  for (const auto* name : kDropouts) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&composite>());
}

}  // namespace lockstep
