// SPDX-License-Identifier: Apache-2.0
// One conformance suite for every World: it moves bits, adds nothing, and a world of one is the identity.
#include "engine/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/comm.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

// @pre the world hosts all its ranks. Rank r sends r everywhere.
void conforms(const WorldPtr& world, const DeviceMesh& mesh) {
  const Comm comm(mesh, world);
  PerRank<at::Tensor> sent;
  for (const int64_t r : comm.ranks) sent.push_back(at::full({2}, r, at::kLong));
  for (size_t d = 0; d < comm.along.size(); ++d) {
    const auto gathered = world->all_gather(comm.ranks, comm.along[d], sent);
    PerRank<std::vector<at::Tensor>> pieces;
    for (size_t i = 0; i < sent.size(); ++i) {
      auto& mine = pieces.emplace_back();
      for (size_t k = 0; k < comm.along[d][i].ranks.size(); ++k)
        mine.push_back(at::full({1}, comm.ranks[i] * 100 + static_cast<int64_t>(k), at::kLong));
    }
    const auto exchanged = world->all_to_all(comm.ranks, comm.along[d], pieces);
    const auto from_first = world->broadcast(comm.ranks, comm.along[d], 0, sent);
    for (size_t i = 0; i < sent.size(); ++i) {
      const auto& group = comm.along[d][i];
      EXPECT_EQ(from_first[i][0].item<int64_t>(), group.ranks[0]);
      for (size_t k = 0; k < group.ranks.size(); ++k) {
        EXPECT_EQ(gathered[i][k][1].item<int64_t>(), group.ranks[k]);
        EXPECT_EQ(exchanged[i][k].item<int64_t>(), group.ranks[k] * 100 + group.place);
      }
    }
  }
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
}

}  // namespace
}  // namespace lockstep
