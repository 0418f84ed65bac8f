// SPDX-License-Identifier: Apache-2.0
// A call in float64, where its op can take that.
#pragma once
#include "oracle/program/schema.h"

namespace lockstep::oracle {

// The fused optimizers read it as float, whatever dtype their parameters have.
inline bool is_always_float(const ArgInfo& arg) {
  return arg.name == "grad_scale" || arg.name == "found_inf";
}

// Floating dtypes among the arguments become double; what is always float is so again.
torch::jit::Stack in_float64(const Operator& op, torch::jit::Stack stack);

}  // namespace lockstep::oracle
