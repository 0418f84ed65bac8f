// SPDX-License-Identifier: Apache-2.0
// How far a result may be from the float64 answer, and whether it is: the second of the two proofs of a
// difference.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "oracle/judge/families.h"
#include "oracle/judge/replay.h"

namespace lockstep::oracle {

// An input as the engine held it: its value in float64 (pending terms folded), and the sum of its terms'
// magnitudes.
struct WideInput {
  at::Tensor value, magnitude;  // integers and booleans stay as they are
  at::Tensor finite;            // how large partial sums of its finite terms may be; undefined: the magnitude
};
WideInput widen(const std::vector<at::Tensor>& terms, const std::vector<ReduceOp>& ops,
                const std::vector<int64_t>& sizes);

// The float64 answer of one effect and the bound of each element.
struct Reference {
  at::Tensor value;      // double, or the exact result of integers
  at::Tensor magnitude;  // double; undefined: no difference is allowed
  at::Tensor range;  // how large finite terms make a partial result in some order; undefined: the magnitude
  bool order_free = false;  // beyond the range nothing is known of the result (products)
  at::Tensor unknown;       // bool; where nothing is known of the result; undefined: nowhere
  at::Tensor lost;          // double; what is lost below the smallest number and multiplied afterwards
  double factor = 0;        // bound = magnitude * factor + floor + lost
  double floor = 0;         // the smallest numbers of the dtype lose their relative precision
};
// @param dtypes of the effects as the engine has them.
std::vector<Reference> references(const OpFamily& family, const RecordedOp& op,
                                  const std::vector<Effect>& effects, const std::vector<WideInput>& inputs);
// Of a fold across ranks by itself: `levels` folds in these dtypes of so many terms each.
struct FoldLevel {
  ReduceOp op;
  int64_t terms;
  c10::ScalarType dtype;
};
Reference fold_reference(const std::vector<at::Tensor>& terms, const std::vector<ReduceOp>& ops,
                         const std::vector<int64_t>& sizes, const std::vector<FoldLevel>& levels,
                         c10::ScalarType dtype);

enum class Within { kYes, kOverflow, kNo };
struct Judged {
  Within within = Within::kYes;
  std::vector<int64_t> index;  // of the first element that is not within
  double actual = 0, expected = 0, bound = 0;
  double worst = 0;  // the largest difference
};
// @param actual the engine's value, pending terms folded in float64. @param plain the plain answer on the
// same inputs.
Judged judge(const at::Tensor& actual, const at::Tensor& plain, const Reference& reference);

// 2^-24 for f32: half a unit in the last place of 1.
double unit_roundoff(c10::ScalarType dtype);

}  // namespace lockstep::oracle
