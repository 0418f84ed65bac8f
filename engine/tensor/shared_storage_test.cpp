// SPDX-License-Identifier: Apache-2.0
// Replicas share storage until one of them is written, whoever writes it, and nothing else: a rank to which
// other bits came, or which computed other bits, keeps its own.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// What rank 2 receives of rank 1 is one more.
class Unequal : public World {
 public:
  explicit Unequal(WorldPtr world) : World(*world), world_(std::move(world)) {}
  Work exchange(Exchange asked) override {
    if (asked.arrived)
      asked.arrived = [next = asked.arrived](size_t part, size_t parcel, const at::Tensor& arrived) {
        next(part, parcel, part == 2 && parcel == 1 ? arrived + 1 : arrived);
      };
    return world_->exchange(std::move(asked));
  }

 private:
  WorldPtr world_;
};

bool share(const at::Tensor& a, const at::Tensor& b) {
  return a.const_data_ptr() == b.const_data_ptr();
}

struct SharedStorage : testing::Test {
  MeshInWorld mesh = init_device_mesh({4});
  at::Tensor value = at::arange(64 * 128, at::kFloat).view({64, 128});  // 32 kB: large enough for replicas

  at::Tensor gathered(const MeshInWorld& on) const {
    return redistribute(distribute_tensor(value, on, {Shard{0}}), {Replicate{}});
  }
};

// Catches: a copy for each rank, so that memory grows with ranks that hold the same.
TEST_F(SharedStorage, GatheredReducedReplicatedAndComputedTensorsAreOneInMemory) {
  const auto pending = from_local({value, value, value, value}, mesh, {Partial{}});
  for (const auto& x : {gathered(mesh), redistribute(pending, {Replicate{}}),
                        distribute_tensor(value, mesh, {Replicate{}}), gathered(mesh) * 2})
    for (const auto& local : local_tensors(x)) EXPECT_TRUE(share(local, local_tensors(x)[0]));
}

// Catches: a write through one rank's copy that shows on another, or that a view of that copy misses.
TEST_F(SharedStorage, AWriteOfOneRankIsSeenByItsViewsAndByNoOtherRank) {
  for (const auto& x : {gathered(mesh), gathered(mesh) + 0}) {
    const auto rows = x.narrow(0, 8, 8);
    local_tensors(x)[2].add_(1);
    to_local(x)[3].mul_(2);
    static_cast<float*>(local_tensors(x)[1].data_ptr())[0] = -5;
    EXPECT_TRUE(local_tensors(x)[0].equal(value));
    EXPECT_TRUE(local_tensors(x)[1].narrow(0, 1, 63).equal(value.narrow(0, 1, 63)));
    EXPECT_EQ(local_tensors(x)[1][0][0].item<float>(), -5);
    EXPECT_TRUE(local_tensors(x)[2].equal(value + 1));
    EXPECT_TRUE(local_tensors(x)[3].equal(value * 2));
    EXPECT_TRUE(local_tensors(rows)[0].equal(value.narrow(0, 8, 8)));
    EXPECT_TRUE(local_tensors(rows)[2].equal((value + 1).narrow(0, 8, 8)));
  }
}

// Catches: an operator in place that writes a shared storage once for each rank, or for the others too.
TEST_F(SharedStorage, AnOpInPlaceWritesEachRanksOwn) {
  const auto before = gathered(mesh);
  const auto x = gathered(mesh);
  const auto copy = redistribute(x, {Replicate{}});
  x.add_(1);
  x.narrow(1, 0, 3).zero_();
  auto expected = value + 1;
  expected.narrow(1, 0, 3).zero_();
  for (size_t r = 0; r < 4; ++r) {
    EXPECT_TRUE(local_tensors(x)[r].equal(expected)) << r;
    EXPECT_TRUE(local_tensors(copy)[r].equal(value)) << r;
    EXPECT_TRUE(local_tensors(before)[r].equal(value)) << r;
  }
}

// Catches: what came to the first rank of a group given to the others, unseen.
TEST_F(SharedStorage, ARankThatOtherBitsCameToKeepsThem) {
  const auto x = gathered(init_device_mesh({4}, {}, std::make_shared<Unequal>(local_world(4))));
  auto other = value.clone();
  other.narrow(0, 16, 16).add_(1);
  for (size_t r = 0; r < 4; ++r) EXPECT_TRUE(local_tensors(x)[r].equal(r == 2 ? other : value)) << r;
}

// Catches: what was folded of the terms that came to the first rank of a group given to the others, unseen.
TEST_F(SharedStorage, ARankThatOtherTermsCameToFoldsThem) {
  const auto on = init_device_mesh({4}, {}, std::make_shared<Unequal>(local_world(4)));
  const auto pending = from_local({value, value + 1, value + 2, value + 3}, on, {Partial{}});
  const auto x = redistribute(pending, {Replicate{}});
  for (size_t r = 0; r < 4; ++r) EXPECT_TRUE(local_tensors(x)[r].equal(value * 4 + (r == 2 ? 7 : 6))) << r;
}

// Catches: a kernel that is run once for all ranks, so that a rank that goes its own way is not seen.
TEST_F(SharedStorage, ARankThatComputesOtherBitsKeepsThem) {
  const auto x = gathered(mesh);
  local_tensors(x)[3].narrow(0, 63, 1).zero_();
  const auto y = x + 1;
  for (size_t r = 0; r < 4; ++r) EXPECT_EQ(local_tensors(y)[r].equal(value + 1), r != 3) << r;
}

// Ranks 1 to 3 hold nothing of what is contracted. Catches: an identity for each rank that has no term, and a
// term that is given to others.
TEST_F(SharedStorage, TermsThatAreTheIdentityAreOneInMemory) {
  const auto x = distribute_tensor(value.narrow(1, 0, 1), mesh, {Shard{1}});
  const auto y = distribute_tensor(value.narrow(0, 0, 1), mesh, {Shard{0}});
  const auto product = at::mm(x, y);
  ASSERT_TRUE(std::holds_alternative<Partial>(placements(product)[0]));
  const auto& terms = local_tensors(product);
  EXPECT_FALSE(share(terms[0], terms[1]));
  EXPECT_TRUE(share(terms[1], terms[2]) && share(terms[1], terms[3]));
  EXPECT_TRUE(full_tensor(product).equal(at::mm(value.narrow(1, 0, 1), value.narrow(0, 0, 1))));
}

// Along one dimension of a mesh, with terms along the other. Catches: replicas of another part.
TEST_F(SharedStorage, OnlyReplicasOfOnePartAreShared) {
  const auto two = init_device_mesh({2, 2});
  const auto x = distribute_tensor(value, two, {Shard{0}, Replicate{}}) + 1;
  const auto& locals = local_tensors(x);
  EXPECT_TRUE(share(locals[0], locals[1]));
  EXPECT_TRUE(share(locals[2], locals[3]));
  EXPECT_FALSE(share(locals[0], locals[2]));
  EXPECT_TRUE(full_tensor(x).equal(value + 1));
  const auto same = distribute_tensor(at::ones_like(value), two, {Shard{0}, Replicate{}}) + 1;
  EXPECT_FALSE(share(local_tensors(same)[0], local_tensors(same)[2]));
  // The replicas of each of three parts, on ranks that lie apart.
  const auto three = init_device_mesh({2, 3});
  const auto rows = at::arange(3 * 4096, at::kFloat).view({3 * 64, 64});
  const auto parts = distribute_tensor(rows, three, {Replicate{}, Shard{0}}) + 1;
  for (size_t part = 0; part < 3; ++part)
    EXPECT_TRUE(share(local_tensors(parts)[part], local_tensors(parts)[part + 3]));
}

// Catches: a look at each other's bytes that costs more than it saves.
TEST_F(SharedStorage, SmallReplicasStayApart) {
  const auto small = distribute_tensor(at::ones({2048}), mesh, {Replicate{}}) + 1;  // 8 kB
  EXPECT_FALSE(share(local_tensors(small)[0], local_tensors(small)[1]));
}

}  // namespace
}  // namespace lockstep
