// SPDX-License-Identifier: Apache-2.0
// The model of a case of the suite `plans` in training: under its plan on ranks, or on one device.
#pragma once
#include <functional>

#include "suites/core/engine_under_test.h"
#include "suites/plans/parallelizing_fault.h"

namespace lockstep {
class World;
using WorldPtr = std::shared_ptr<World>;
}  // namespace lockstep

namespace lockstep::suites {

// The plan, as text, and then what each forward row did in a call: "0.1:0", an input, or "0:out"; and "
// moved" where it moved something.
using Acted = std::vector<std::string>;
// Of one device: where a row has moved something on ranks there is a node for it on the way back, which does
// nothing here, and where one looks at gradients a hook. So autograd goes the same way, and adds up in the
// same order.
void act_alike(const Parallelizing& p, nn::Module& model, Acted acted);

std::shared_ptr<nn::Module> model_of(const Parallelizing& p);

// The sum of what passes have left in a gradient.
using AddUp = std::function<at::Tensor(const nn::Tensors& passes)>;
// Forward and backward passes of the mean of the squares of what the model gives, and updates. @returns the
// losses
// @param add_up of one device: of gradients whose passes a row tells apart. Null: whoever annotates them does
nn::Tensors train(nn::Module& model, const at::Tensor& x, const Parallelizing& p,
                  const ParallelizingFault& fault = {}, const AddUp& add_up = nullptr);

// In which order the row, which annotates gradients, says that they are added up in a step.
ReductionOrder order_said(const Parallelizing& p, const PlanRow& row);

// What training ends with: losses, examples and their gradient, parameters, and their gradients.
nn::Tensors ends_of(const nn::Module& model, const at::Tensor& x, const nn::Tensors& losses);

// Of the ranks that `world` hosts, with the timeline of the last of several trainings. Throws
// std::logic_error where a tensor is elsewhere than its row says; where what is optimized moves more, or
// places what an op reads otherwise.
EngineResult parallelized(const WorldPtr& world, const Parallelizing& p,
                          const ParallelizingFault& fault = {});

}  // namespace lockstep::suites
