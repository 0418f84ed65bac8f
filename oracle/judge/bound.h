// SPDX-License-Identifier: Apache-2.0
// The float64 answer of one op, and how far roundings in a dtype may bring its result from it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/judge/families.h"
#include "oracle/judge/replay.h"

namespace lockstep::oracle {

// An input: its value in float64 (pending terms folded), and the sum of its terms' magnitudes.
struct WideInput {
  at::Tensor value, magnitude;  // integers and booleans stay as they are
};
WideInput widen(const std::vector<at::Tensor>& terms, const std::vector<ReduceOp>& ops,
                const std::vector<int64_t>& sizes);

// The float64 answer of one effect and the bound of each element: magnitude * factor + floor + lost.
struct Reference {
  at::Tensor value;      // double, or the exact result of integers
  at::Tensor magnitude;  // double; undefined: no difference is allowed
  at::Tensor lost;       // double; what is lost below the smallest number and multiplied afterwards
  double factor = 0;
  double floor = 0;  // the smallest numbers of the dtype lose their relative precision
};
// @param dtype in which the op rounds.
std::vector<Reference> references(const OpFamily& family, const RecordedOp& op,
                                  const std::vector<Effect>& effects, const std::vector<WideInput>& inputs,
                                  c10::ScalarType dtype);

// 2^-24 for f32: half a unit in the last place of 1.
double unit_roundoff(c10::ScalarType dtype);

}  // namespace lockstep::oracle
