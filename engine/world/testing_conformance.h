// SPDX-License-Identifier: Apache-2.0
// What every World must do, as one function: for the tests of these and of yours.
#pragma once
#include <string>

#include "engine/values/device_mesh.h"
#include "engine/world/worlds.h"

namespace lockstep {

// Called by every process, or thread, of the World, each of which checks what the ranks that it hosts see.
// Along each dimension of `mesh`, and over the whole of it, every collective gives each rank the bits that
// its group sent it: in every dtype, NaNs with their payloads and -0.0 included, pieces of other sizes and
// empty ones too; reductions of every kind and dtype fold in rank order; exchanges may be waited for in any
// order; a group meets at a barrier; ranks that ask for different exchanges get an Error. Returns "" or the
// first violation.
std::string world_conformance(const WorldPtr& world, const DeviceMesh& mesh);

}  // namespace lockstep
