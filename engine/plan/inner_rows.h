// SPDX-License-Identifier: Apache-2.0
// Rows of a plan that act within the forward of a module: on what its factories make, and on inputs of its
// ops.
#pragma once
#include "engine/plan/claims.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {

void place_factories(const Target& target, const MeshInWorld& mesh);
// While the module runs; while one within it does, there are none, unless it has its own.
void move_op_inputs(const Target& target, const std::vector<Target>& targets);

}  // namespace lockstep
