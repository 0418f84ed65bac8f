// SPDX-License-Identifier: Apache-2.0
// A plan with fewer and earlier redistributions, by what a step of the model has shown (veScale's fusing and
// reordering of a plan's operations).
#pragma once
#include "engine/plan/trace.h"

namespace lockstep {

struct OptimizeOptions {
  // What several modules do to one input of a module around them is done there, once. Their gradients are
  // then added up before they are reduced, and not afterwards, which rounds otherwise.
  bool reorders_sums = false;
};

struct OptimizedPlan {
  ParallelPlan plan;
  std::vector<std::string> changes;  // a sentence each
};

// - drop: a row of the forward pass by which nothing moved;
// - skip a stop: an output that only one input takes goes right where that one is to be, or stays, if it was
//   there, and its gradient comes to where it is;
// - hoist (reorders_sums): see above;
// - merge: rows of one input, output or gradient, along several mesh dimensions, are one;
// - begin early: outputs that somebody uses are under way until then.
// Law: a step that goes the way of the traced one has the bits of `plan`, but for reorders_sums, and moves no
// more; where gradients pend along several mesh dimensions, which stops would add up in another order, rows
// stay as they are, and so do those of tensors that are written to. What is opened up by that shows in a
// trace of the result. @param trace of the model under `plan`
OptimizedPlan optimize(const ParallelPlan& plan, const PlanTrace& trace, const OptimizeOptions& options = {});

}  // namespace lockstep
