// SPDX-License-Identifier: Apache-2.0
// What the kernels of a RandomScope share: their dispatch key, who passes by, and drawing from the source.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <optional>

#include "engine/stream/random_source.h"

namespace lockstep::random_mode {

// Above autograd; included only within a RandomScope.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);

// Who serves the current Context. Throws Broken outside of any RandomScope.
RandomSource& source();

// DTensors draw in the engine, and a tensor without values has none to draw.
bool passes(c10::DispatchKeySet keys);

// Throws Error for a torch::Generator, which a scope cannot follow.
void check_generator(const char* op, const std::optional<at::Generator>& given);

// A call that fills a tensor like x.
RandomCall call_on(RandomKind kind, const at::Tensor& x);

// A new tensor with the call's values; nothing is drawn for one without elements.
at::Tensor drawn(const RandomCall& call, const at::TensorOptions& options);

}  // namespace lockstep::random_mode
