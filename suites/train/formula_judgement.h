// SPDX-License-Identifier: Apache-2.0
// Whether model and optimizer, on one device, are what the papers say: held step by step against
// oracle/reference, which shares no code with them.
#pragma once
#include <string>
#include <string_view>

#include "suites/train/train.h"

namespace lockstep::suites {

struct FormulaJudgement {
  // The first that has another answer: "parameters", "first values", "random stream", "loss", "norm",
  // "gradient" or "update"; "": none has.
  std::string question;
  std::string text;  // where and how far; of none, how near
  bool holds() const { return question.empty(); }
};

// Trains on one device, whatever the mesh; before each step the reference takes over the parameters. In the
// model's dtype and in float64. Bits: the first values; the update of the same gradients, but by the fused
// op. In float64 alone, where both sides add in orders of their own: loss, norm, gradients, and the fused
// update, within gamma(n) of the largest element, n roundings being on the longest way through the model and
// back. @pre the random policies are the single device's.
// Throws EngineThrew.
FormulaJudgement judge_formulas(const TrainOptions& options, std::string_view text);

}  // namespace lockstep::suites
