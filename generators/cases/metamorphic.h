// SPDX-License-Identifier: Apache-2.0
// Transformations of a Case that leave its single-device answer as it is, provided that its Partial inputs
// fold to the same bits on every mesh, as those of generate("metamorphic") do.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "generators/space/random.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// One mesh dimension of a * b ranks becomes two of a and b: 8 -> 2x4 -> 2x2x2. Shards are cut twice, Partials
// are terms along both. A dimension that a RaggedShard cuts stays as it is, since the units belong to it; so
// does one whose uneven shards, cut twice, would leave other rows than the blocks of a RaggedShard divide.
// `shapes`: of each value of the Program, inputs first. nullopt if no dimension is left, or the mesh has four
// already.
std::optional<oracle::Case> refactor_mesh(const oracle::Case& c,
                                          const std::vector<std::vector<int64_t>>& shapes);
// The same grid with its ranks in another order.
oracle::Case permute_ranks(const oracle::Case& c, Random random);
// The same grid of ranks of a larger World, which has others beside and between them.
oracle::Case ranks_of_larger_world(const oracle::Case& c, Random random);
// A mesh of the same dimensions, all of one rank: every placement is the identity.
oracle::Case world_of_one(const oracle::Case& c);
// Every input Replicate.
oracle::Case replicate_inputs(const oracle::Case& c);

}  // namespace lockstep::generators
