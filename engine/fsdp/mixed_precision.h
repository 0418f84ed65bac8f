// SPDX-License-Identifier: Apache-2.0
// MixedPrecisionPolicy: in which dtypes a module that is cut computes. FSDP2's, field by field.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>

namespace lockstep {

// Floating dtypes; empty: as they come.
struct MixedPrecisionPolicy {
  std::optional<c10::ScalarType> param_dtype = {};   // of gathered parameters, and so of what is computed
  std::optional<c10::ScalarType> reduce_dtype = {};  // in which gradients are added up and divided
  std::optional<c10::ScalarType> output_dtype = {};  // of what the module returns
  bool cast_forward_inputs = true;                   // to param_dtype
};

}  // namespace lockstep
