// SPDX-License-Identifier: Apache-2.0
// Simplifications of a Case that keep its calls, and the measure that all of them lower. What they return
// need not run.
#pragma once
#include <vector>

#include "oracle/program/program.h"

namespace lockstep::generators {

std::vector<oracle::Case> simpler_meshes(const oracle::Case& c);  // fewer dimensions, fewer ranks, no names
std::vector<oracle::Case> simpler_placements(const oracle::Case& c);  // Replicate, Shard, left to right
std::vector<oracle::Case> smaller_shapes(const oracle::Case& c);      // one size everywhere, or of one input
std::vector<oracle::Case> simpler_values(const oracle::Case& c);  // f32, contiguous, small integers, seed 0

}  // namespace lockstep::generators
