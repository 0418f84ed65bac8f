// SPDX-License-Identifier: Apache-2.0
// What the kernels of a RandomScope share: their dispatch key, who passes by, and drawing from the source.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"

namespace lockstep::random_mode {

// Above autograd; included only within a RandomScope.
constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr c10::DispatchKeySet kBelow(c10::DispatchKeySet::FULL_AFTER, kKey);

using GivenGenerator = std::optional<at::Generator>;

// Who serves the current Context. Throws Broken outside of any RandomScope.
RandomSource& source();

// DTensors draw in the engine, and a tensor without values has none to draw.
bool passes(c10::DispatchKeySet keys);

// Throws Error for a torch::Generator, which a scope cannot follow.
void check_generator(const char* op, const GivenGenerator& given);

// A call that fills a tensor like x.
RandomCall call_on(RandomKind kind, const at::Tensor& x);

// A new tensor with the call's values; nothing is drawn for one without elements.
at::Tensor drawn(const RandomCall& call, const at::TensorOptions& options);

// An operator of at::_ops whose calls on plain tensors `kernel` serves: those that draw, if not all do.
template <class Op, auto kernel, auto draws, class Schema>
struct Served;
template <class Op, auto kernel, auto draws, class Result, class... Arguments>
struct Served<Op, kernel, draws, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    bool serves = !passes(keys);
    if constexpr (!std::is_null_pointer_v<decltype(draws)>) serves = serves && draws(arguments...);
    if (!serves) return Op::redispatch(keys & kBelow, std::forward<Arguments>(arguments)...);
    const auto check = []<class A>(const A& argument) {
      if constexpr (std::is_same_v<A, GivenGenerator>) check_generator(Op::name, argument);
    };
    (check(arguments), ...);
    return kernel(arguments...);
  }
};
template <class Op, auto kernel, auto draws = nullptr>
void serve(torch::Library& library) {
  const auto* overload = Op::overload_name;
  library.impl(concat(Op::name, *overload == '\0' ? "" : ".", overload).c_str(),
               TORCH_FN((Served<Op, kernel, draws, typename Op::schema>::call)));
}

// Each file's operators.
void serve_fills(torch::Library& library);      // in place, one number an element
void serve_dropouts(torch::Library& library);   // random_dropout.cpp
void serve_compounds(torch::Library& library);  // one draw and stock operators

}  // namespace lockstep::random_mode
