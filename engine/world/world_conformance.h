// SPDX-License-Identifier: Apache-2.0
// What every World must do, as one function: for the tests of this one and of yours.
#pragma once
#include <string>

#include "engine/values/device_mesh.h"
#include "engine/world/world.h"

namespace lockstep {

// Along each dimension of `mesh`, every collective gives each rank the bits that its group sent it: NaNs with
// their payloads and -0.0 included, pieces of other sizes and empty ones too. Returns "" or the first
// violation. @pre the world hosts all its ranks.
std::string world_conformance(const WorldPtr& world, const DeviceMesh& mesh);

}  // namespace lockstep
