// SPDX-License-Identifier: Apache-2.0
// What a training may use and the small model does not: initialisers, a linear layer with a bias, SGD's other
// rules, gradients in half precision.
#pragma once
#include "suites/train/formula_judgement.h"

namespace lockstep::suites {

// On one device and on the mesh of the options, each part on tensors of a few elements, drawn by their seed.
// Bits, of what stock torch::nn and torch::optim make of the same: first values, a linear layer, the updates
// by SGD. Of clipping, near: the norm as many roundings of float from the float64 norm of the same gradients
// as it has terms, gradients one of their own. And a model that has memory is not taken for a deferred one.
// The question is "first values", "layer", "deferred", "update" or "clipping". Throws EngineThrew.
FormulaJudgement judge_parts(const TrainOptions& options);

}  // namespace lockstep::suites
