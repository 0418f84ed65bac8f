// SPDX-License-Identifier: Apache-2.0
// LoneWorld: one rank of a job, without the others. What needs no other rank runs: drawing a model's shards
// one rank at a time.
#pragma once
#include "engine/world/worlds.h"

namespace lockstep {

// Hosts `rank` of n ranks; a collective is an Error that says so.
WorldPtr lone_world(int64_t n, int64_t rank);

}  // namespace lockstep
