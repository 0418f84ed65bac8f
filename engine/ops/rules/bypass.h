// SPDX-License-Identifier: Apache-2.0
// Bypasses: calls of which the placements alone say what comes out, so that nothing is propagated, decided or
// moved.
#pragma once
#include <ATen/core/enum_tag.h>

#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "engine/ops/rules/row.h"

namespace lockstep {

enum class Variant { kFunctional, kInPlace, kOut, kList };

// A call as a bypass sees it: Specs and arguments, never values.
struct BypassCall {
  Arguments args;
  std::span<const SpecPtr> tensors;  // in schema order, lists flattened; null: plain or undefined
};

// The op runs on what each rank has. Where what comes out is a pending sum and an operand is whole, the
// operand is a term: the first rank along that mesh dimension has it, the others have the sum's identity. A
// truth that the host reads pends as `meta` says, and is reduced. Law: all comes out as by the op's rule.
struct Bypass {
  // "aten::add" in all its overloads, "aten::add.Tensor" alone, or every op that libtorch tags so and of
  // which each rank runs the stock kernel, whatever it has.
  using Ops = std::variant<std::string, at::Tag>;
  Ops op;
  Variant kind = Variant::kFunctional;
  std::function<bool(const BypassCall&)> inputs;   // whether it is for tensors that lie so
  std::function<SpecPtr(const BypassCall&)> meta;  // what comes out; of a tensor that is written, as it lies
};

// Lockstep's own, in the order in which they are tried.
const std::vector<Bypass>& own_bypasses();

}  // namespace lockstep
