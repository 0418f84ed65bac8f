// SPDX-License-Identifier: Apache-2.0
#include "oracle/plain/float64_call.h"

#include <ATen/ATen.h>

namespace lockstep::oracle {

torch::jit::Stack in_float64(const Operator& op, torch::jit::Stack stack) {
  for (size_t i = 0; i < stack.size(); ++i) {
    const bool is_dtype = op.args[i].kind == ArgKind::kDtype && stack[i].isInt();
    if (is_dtype && c10::isFloatingType(stack[i].toScalarType())) stack[i] = at::kDouble;
    if (is_always_float(op.args[i]) && stack[i].isTensor() && stack[i].toTensor().defined())
      stack[i] = stack[i].toTensor().to(at::kFloat);
  }
  return stack;
}

}  // namespace lockstep::oracle
