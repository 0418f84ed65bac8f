// SPDX-License-Identifier: Apache-2.0
// Meshes: 1 to 16 ranks in 1 to 3 dimensions; unequal dimensions (2x3) are favoured, for they tell axes
// apart.
#pragma once
#include "engine/values/device_mesh.h"
#include "generators/space/random.h"

namespace lockstep::generators {

// @post 1 <= size() <= max_ranks; 1 to 3 dimensions
DeviceMesh draw_mesh(Random& random, int64_t max_ranks = 8);

}  // namespace lockstep::generators
