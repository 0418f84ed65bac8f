// SPDX-License-Identifier: Apache-2.0
// What the rows of a plan meet in a step of a model: the tensors that came to its hooks, where they went, and
// what else was read. What optimize.h goes by. All of it is by identity: ranks in several processes, which
// hold different values, find the same.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "engine/context/context.h"
#include "engine/nn/module.h"
#include "engine/plan/plan.h"

namespace lockstep {

// Of a list, from `first` on and before `last`.
struct Span {
  size_t first = 0, last = 0;
  bool holds(size_t i) const { return first <= i && i < last; }
};

struct PlanMove {
  PlanRow row;
  std::string module;     // a path of it
  at::Tensor came, left;  // the same one: nothing moved
  // Of what left, as it came back; none: it has not yet.
  std::shared_ptr<std::optional<Placements>> gradient;
  Span given;  // what moved it
};

// A call of a module, its inputs as they are when its rows have moved them.
struct ModuleCall {
  std::string module;
  nn::Tensors inputs;
  Span moves, given;  // within it
};

struct PlanTrace {
  std::vector<std::vector<std::string>> modules;  // all paths of each
  std::vector<PlanMove> moves;                    // in their order
  std::vector<ModuleCall> calls;                  // in the order in which they began
  std::vector<Given> given;                       // Context::given
};

// Runs `step`, forward and backward passes of the model, which parallelize has changed, in this thread's
// Context, and records it. All tensors of the step stay until the trace goes.
PlanTrace trace(nn::Module& model, const std::function<void()>& step);

}  // namespace lockstep
