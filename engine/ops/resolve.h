// SPDX-License-Identifier: Apache-2.0
// From an operator of libtorch to its rule: in-place, out and foreach variants take the rule of the
// functional op.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

#include "engine/ops/rules/bypass.h"
#include "engine/ops/rules/record.h"

namespace lockstep {

enum class ArgKind { kConstant, kTensor, kTensorList };

// What libtorch makes of an operand that it knows to be zero (engine/tensor/zeros.h).
enum class Zeros {
  kOrdinary,  // one zero, seen everywhere
  kAsTheyLie,
  kTimes,
  kDivides,
  kAdds
};

struct Resolved {
  const OpEntry* entry = nullptr;  // null: no rule
  Variant variant = Variant::kFunctional;
  bool composite = false;  // has a CompositeImplicitAutograd kernel and no rule of its own
  Zeros zeros = Zeros::kOrdinary;
  std::optional<c10::OperatorHandle> functional;  // of an out variant: the overload without the outs
  std::vector<bool> mutated;                      // arguments written to
  std::vector<ArgKind> kinds;                     // of the arguments
  std::vector<Bypass> bypasses;                   // that may be for a call of it, in turn; mostly none
};

// Computed once for each operator in each Context, until user rules change.
const Resolved& resolve(const c10::OperatorHandle& op);

}  // namespace lockstep
