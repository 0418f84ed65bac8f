// SPDX-License-Identifier: Apache-2.0
// LocalWorld conforms: it moves bits, adds nothing, and a world of one is the identity. The suites'
// decorators are held against the same function in suites/engines/worlds_test.cpp.
#include "engine/world/world.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "engine/world/comm.h"
#include "engine/world/lone_world.h"
#include "engine/world/world_conformance.h"

namespace lockstep {
namespace {

void conforms(const WorldPtr& world, const DeviceMesh& mesh) {
  EXPECT_EQ(world_conformance(world, mesh), "");
}

// Catches: groups along the wrong mesh dimension (equal sizes would hide it), transposed all-to-all.
TEST(WorldTest, LocalWorldConforms) {
  conforms(local_world(6), DeviceMesh({2, 3}));
  conforms(local_world(8), DeviceMesh({2, 2, 2}));
  conforms(local_world(64), DeviceMesh({64}));
  conforms(local_world(1), DeviceMesh({1}));
}

// Catches: positions taken for ranks.
TEST(WorldTest, SubMeshesKeepTheirRanks) {
  const auto mesh = DeviceMesh({2, 3}, {"dp", "tp"}).sub_mesh({"tp"}, 4);
  EXPECT_EQ(mesh.ranks(), (std::vector<int64_t>{3, 4, 5}));
  conforms(local_world(6), mesh);
}

TEST(WorldTest, RefusesAMeshThatDoesNotFit) {
  EXPECT_THROW(Comm(DeviceMesh({4}), local_world(2)), Error);
  EXPECT_THROW(local_world(0), Error);
  EXPECT_NE(world_conformance(lone_world(2, 1), DeviceMesh({2})), "");
}

}  // namespace
}  // namespace lockstep
