// SPDX-License-Identifier: Apache-2.0
// Rows of a plan that act within the forward of a module: on what its factories make, and on inputs of its
// ops.
#pragma once
#include "engine/plan/claims.h"
#include "engine/tensor/dtensor.h"

namespace lockstep {

// Also of the modules within it that have no such row.
void place_factories(const Target& target, const MeshInWorld& mesh);
// Throws Error for an op that there is not, or that is made of others before the engine sees it.
void check_ops(const Target& target);
// While the module runs; while one within it does, there are none, unless it has its own.
void move_op_inputs(const Target& target, const std::vector<Target>& targets, const MeshInWorld& mesh);

}  // namespace lockstep
