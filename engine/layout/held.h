// SPDX-License-Identifier: Apache-2.0
// How many elements all ranks of a mesh hold together, told without a list of the ranks.
#pragma once
#include "engine/layout/layout.h"

namespace lockstep {

// Law: the sum of numel(owned_by(spec, p)) over all positions p.
int64_t held_by_all(const Spec& spec);

// Law: the sum over all ranks of the elements that a rank holds under both Specs, which are of one shape.
// Takes time for each coordinate along the mesh dimensions that cut a tensor dimension together, where locals
// are flat along all that distribute, and memory for none; between two meshes time and memory for each rank.
int64_t kept_by_all(const Spec& from, const Spec& to);

}  // namespace lockstep
