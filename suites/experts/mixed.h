// SPDX-License-Identifier: Apache-2.0
// The mixture of a case of the suite `experts` on ranks, forward and backward.
#pragma once
#include "engine/world/world.h"
#include "suites/experts/mixing_fault.h"

namespace lockstep::suites {

// The output, and the gradients of the tokens, the gate, gate_proj, up_proj and down_proj.
std::vector<at::Tensor> mixed(const WorldPtr& world, const Mixing& mixing, const MixingFault& fault = {});

}  // namespace lockstep::suites
