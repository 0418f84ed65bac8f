// SPDX-License-Identifier: Apache-2.0
#include "engine/world/comm.h"

#include <algorithm>

#include "engine/values/error.h"
#include "engine/world/world.h"

namespace lockstep {

Comm::Comm(DeviceMesh mesh_, WorldPtr world_)
    : mesh(std::move(mesh_)), world(std::move(world_)), context(current_context()) {
  LOCKSTEP_CHECK(world->device().type() == mesh.device_type(), "[init_device_mesh] mesh ", to_string(mesh),
                 " has its local tensors on ", c10::Device(mesh.device_type()), ", and a world that is ",
                 world->name(), " has them on ", world->device(), "; give both the same device");
  const auto& hosted = world->hosted();
  for (int64_t p = 0; p < mesh.size(); ++p) {
    const int64_t rank = mesh.ranks()[static_cast<size_t>(p)];
    LOCKSTEP_CHECK(rank < world->size(), "[init_device_mesh] mesh ", to_string(mesh), " needs rank ", rank,
                   ", but the world has ", world->size(), " ranks; give a larger world or a smaller mesh");
    if (!std::binary_search(hosted.begin(), hosted.end(), rank)) continue;
    positions.push_back(p);
    ranks.push_back(rank);
  }
  for (int64_t dim = 0; dim < mesh.ndim(); ++dim) {
    auto& groups = along.emplace_back();
    for (const int64_t p : positions) {
      Group group;
      for (const int64_t q : mesh.line(p, dim)) group.ranks.push_back(mesh.ranks()[static_cast<size_t>(q)]);
      group.place = mesh.coordinate(p)[static_cast<size_t>(dim)];
      groups.push_back(std::move(group));
    }
  }
  for (const int64_t p : positions) whole.push_back({mesh.ranks(), p});
}

}  // namespace lockstep
