// SPDX-License-Identifier: Apache-2.0
// Worlds in which a training does without something, to see what that is worth. Both move the same bits in
// the same collectives.
#pragma once
#include "engine/world/worlds.h"

namespace lockstep::suites {

// Without a DBuffer (veScale-FSDP, Table 2): parameters do not lie in memory as collectives need them. Before
// an all-gather or a reduce-scatter each rank copies what it sends into memory of its own, once whoever gets
// it, and after an all-gather what it has received out of another: FSDP2's copy-in and copy-out.
WorldPtr packing(WorldPtr world);
// Without overlap: what is begun has ended before anything else is done.
WorldPtr waiting(WorldPtr world);

}  // namespace lockstep::suites
