// SPDX-License-Identifier: Apache-2.0
// Comm: a mesh placed in a World: which of its positions are hosted here, and the groups along each mesh
// dimension. Computed once for a mesh and shared by its DTensors.
#pragma once
#include <memory>

#include "engine/context/context.h"
#include "engine/values/device_mesh.h"
#include "engine/world/worlds.h"

namespace lockstep {

struct Comm {
  Comm(DeviceMesh mesh, WorldPtr world);

  DeviceMesh mesh;
  WorldPtr world;
  ContextPtr context;                     // the one that was current when this was made
  std::vector<int64_t> positions;         // hosted mesh positions, ascending
  std::vector<int64_t> ranks;             // their ranks
  std::vector<std::vector<Group>> along;  // [mesh dim][hosted index]
  std::vector<Group> whole;               // the whole mesh, for each hosted rank
};

using CommPtr = std::shared_ptr<const Comm>;

}  // namespace lockstep
