// SPDX-License-Identifier: Apache-2.0
// Redistribution to another mesh of the same ranks.
#include <gtest/gtest.h>

#include "engine/layout/held.h"
#include "engine/layout/route.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

MeshInWorld mesh_of(std::vector<int64_t> shape, std::vector<int64_t> ranks, const WorldPtr& world) {
  return {DeviceMesh(std::move(shape), {}, std::move(ranks)), world, nullptr};
}

// Ways to place a matrix on a mesh of one or two dimensions, in both orders of these.
std::vector<std::pair<Placements, std::vector<int64_t>>> placings(int64_t mesh_dims) {
  auto choices = placement_choices(2);
  choices.emplace_back(Partial{ReduceOp::kAvg});
  choices.emplace_back(Partial{ReduceOp::kMax});
  choices.emplace_back(RaggedShard{{0}, {0, 2, 1, 0, 1, 1}});
  choices.emplace_back(RaggedShard{{0, 1}, {3, 0, 1, 0, 0, 1}});
  std::vector<std::pair<Placements, std::vector<int64_t>>> result;
  if (mesh_dims == 1) {
    for (const auto& p : choices) result.push_back({{p}, {}});
    return result;
  }
  choices.resize(choices.size() - 4);
  for (const auto& a : choices)
    for (const auto& b : choices) result.push_back({{a, b}, {}});
  result.push_back({{Shard{0}, Shard{0}}, {1, 0}});
  for (const auto& beside : choices) {
    result.push_back({{RaggedShard{{0}, {2, 3}}, beside}, {}});
    result.push_back({{beside, RaggedShard{{0, 1}, {1, 0, 4}}}, {}});
  }
  std::erase_if(result, [](const auto& placed) {  // ragged beside what cuts blocks of it
    return !error_of([&] { Spec(DeviceMesh({2, 3}), placed.first, {5, 6}, c10::kFloat); }).empty();
  });
  return result;
}

// From every placement on 2x3 to every placement on 6, and back, the ranks of the one as they come, of the
// other in another order: what each rank holds is what distributing there gives it, and what it receives is
// what it lacks. Catches: a position in one mesh taken for that in the other, locals in the order of the
// mesh before, replicas that send twice, a Partial that pends on the way.
TEST(OtherMesh, EveryRankHoldsWhatItHoldsThere) {
  const auto world = local_world(6);
  const auto value = at::arange(30, at::kFloat).reshape({5, 6});
  const auto wide = init_device_mesh({2, 3}, {}, world), line = mesh_of({6}, {4, 2, 0, 5, 1, 3}, world);
  int64_t pairs = 0;
  const auto expect = [&](const MeshInWorld& from, const MeshInWorld& to) {
    for (const auto& [a, order_a] : placings(from.mesh.ndim()))
      for (const auto& [b, order_b] : placings(to.mesh.ndim())) {
        const auto x = distribute_tensor(value, from, a, order_a);
        const auto y = redistribute(x, to, b, order_b, /*async_op=*/pairs % 3 == 0);
        const auto wanted = distribute_tensor(value, to, b, order_b);
        ASSERT_EQ(spec(y), spec(wanted));
        for (size_t i = 0; i < 6; ++i)
          ASSERT_TRUE(same_bits(local_tensors(y)[i], local_tensors(wanted)[i]))
              << spec(x) << " -> " << spec(y) << ", " << i;
        ++pairs;
      }
  };
  expect(wide, line);
  expect(line, wide);
  EXPECT_GT(pairs, 800);
}

// Catches: bytes of what a rank holds already, or of one rank only.
TEST(OtherMesh, SendsWhatTheRanksLack) {
  const DeviceMesh wide({2, 3}), turned({3, 2}, {}, {0, 2, 4, 1, 3, 5});
  const auto bytes = [&](Placements from, Placements to) {
    const auto x = std::make_shared<const Spec>(wide, from, std::vector<int64_t>{6, 6}, c10::kFloat);
    const auto y = std::make_shared<const Spec>(turned, to, std::vector<int64_t>{6, 6}, c10::kFloat);
    return route(x, y).bytes();
  };
  EXPECT_EQ(bytes({Replicate{}, Replicate{}}, {Shard{0}, Shard{1}}), 0);
  // Ranks 0, 1, 2 hold the upper half and 3, 4, 5 the lower; then 0, 2, 4 the left half and 1, 3, 5 the
  // right.
  EXPECT_EQ(bytes({Shard{0}, Replicate{}}, {Replicate{}, Shard{1}}), 6 * 9 * 4);
  EXPECT_EQ(bytes({Partial{}, Replicate{}}, {Replicate{}, Shard{1}}), 6 * 36 * 4);
}

// Catches: a gradient that stays on the mesh where it came, or pends there.
TEST(OtherMesh, GradientsComeBack) {
  const auto world = local_world(4);
  const auto line = init_device_mesh({4}, {}, world), square = mesh_of({2, 2}, {3, 1, 2, 0}, world);
  const auto value = at::arange(20, at::kFloat).reshape({5, 4});
  for (const Placement& p : placement_choices(2))
    for (const Placement& q : placement_choices(2)) {
      const auto x = parameter(distribute_tensor(value, line, {p}));
      const auto y = redistribute(x, square, {q, Replicate{}});
      (y * y).sum().backward();
      EXPECT_EQ(spec(x.grad()).mesh(), line.mesh);
      EXPECT_EQ(placements(x.grad()), dual({p}));
      EXPECT_TRUE(same_bits(full_tensor(x.grad()), 2 * value)) << p << ", " << q;
    }
}

// Catches: two names for one mesh that keep the old one; a tensor that is its input.
TEST(OtherMesh, ANameIsAnother) {
  const auto world = local_world(2);
  const auto mesh = init_device_mesh({2}, {}, world), named = init_device_mesh({2}, {"tp"}, world);
  const auto x = distribute_tensor(at::ones({4}), mesh, {Shard{0}});
  const auto y = redistribute(x, named, {Shard{0}});
  EXPECT_EQ(to_string(spec(y).mesh()), "tp:2");
  EXPECT_FALSE(y.is_same(x));
  EXPECT_EQ(to_string(spec(redistribute(x, named, {Replicate{}})).mesh()), "tp:2");
}

// Catches: what has begun and refers to a mesh that is no more, or may be written to where it is sent from;
// two that are waited for in another order; one that nobody waits for and is not named by its mesh.
TEST(OtherMesh, IsBegunAndWaitedForLater) {
  const auto world = local_world(4);
  const auto x = distribute_tensor(at::arange(8, at::kFloat), init_device_mesh({4}, {}, world), {Shard{0}});
  const auto begin = [&](std::vector<int64_t> ranks) {
    return redistribute(x, mesh_of({2, 2}, std::move(ranks), world), {Replicate{}, Shard{0}}, {}, true);
  };
  {
    auto first = begin({0, 1, 2, 3}), second = begin({3, 2, 1, 0});
    EXPECT_NE(error_of([&] { at::Tensor(x).zero_(); }), "");
    EXPECT_TRUE(same_bits(full_tensor(second), at::arange(8, at::kFloat)));
    EXPECT_TRUE(same_bits(full_tensor(first), at::arange(8, at::kFloat)));
  }
  take_never_waited();
  begin({0, 2, 1, 3});
  EXPECT_EQ(take_never_waited(),
            std::vector<std::string>{"[redistribute] f32[8]@[S0] -> [R,S0] on mesh 2x2"});
}

// Catches: meshes of other ranks, or of another World, between which tensors would be lost.
TEST(OtherMesh, RefusesByName) {
  const auto world = local_world(4);
  const auto x = distribute_tensor(at::ones({4}), mesh_of({2}, {0, 1}, world), {Shard{0}});
  const auto to = [&](const MeshInWorld& mesh) {
    return error_of([&] { redistribute(x, mesh, {Shard{0}}); });
  };
  EXPECT_NE(to(mesh_of({2}, {0, 2}, world)).find("has rank 1, and"), std::string::npos);
  EXPECT_NE(to(mesh_of({4}, {0, 1, 2, 3}, world)).find("has rank 2, and"), std::string::npos);
  EXPECT_NE(to(init_device_mesh({2})).find("of another world; give init_device_mesh"), std::string::npos);
  EXPECT_NE(error_of([&] { at::add(x, redistribute(x, mesh_of({2}, {1, 0}, world), {Shard{0}})); }), "");
}

}  // namespace
}  // namespace lockstep
