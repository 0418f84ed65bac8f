// SPDX-License-Identifier: Apache-2.0
// Redistribution to another mesh: of the same ranks, of some of them, of others.
#include <gtest/gtest.h>

#include "engine/layout/held.h"
#include "engine/layout/route.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

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

// From a mesh to one of some of its ranks, of others, of some and others, in any order, and back: what each
// rank holds there is what distributing gives it, and the tensor that comes back is the one that left.
// Catches: a piece for a rank that another one gets, a position taken for a rank, ranks that take part on one
// side alone, replicas that all send or none.
TEST(OtherMesh, OtherRanksHoldWhatTheyHoldThere) {
  const auto world = local_world(8);
  const auto value = at::arange(30, at::kFloat).reshape({5, 6});
  const MeshInWorld meshes[] = {mesh_of({4}, {0, 1, 2, 3}, world),
                                mesh_of({2, 2}, {0, 1, 2, 3}, world),
                                mesh_of({2}, {3, 2}, world),
                                mesh_of({3}, {6, 4, 5}, world),
                                mesh_of({2, 3}, {7, 2, 0, 3, 6, 5}, world),
                                mesh_of({1}, {7}, world)};
  const auto placings = [](const MeshInWorld& mesh) {
    std::vector<Placements> all;
    for (const auto& a : placement_choices(2)) {
      if (mesh.mesh.ndim() == 1)
        all.push_back({a});
      else
        for (const auto& b : {Placement(Replicate{}), Placement(Shard{0}), Placement(Partial{})})
          all.push_back({a, b});
    }
    std::vector<int64_t> units(static_cast<size_t>(mesh.mesh.size(mesh.mesh.ndim() - 1)), 0);
    units.back() = 5;
    Placements ragged(static_cast<size_t>(mesh.mesh.ndim()), Replicate{});
    ragged.back() = RaggedShard{{0}, units};
    all.push_back(ragged);
    return all;
  };
  int64_t pairs = 0;
  for (const auto& from : meshes)
    for (const auto& to : meshes)
      for (const auto& a : placings(from))
        for (const auto& b : placings(to)) {
          const auto x = distribute_tensor(value, from, a);
          const auto y = redistribute(x, to, b, {}, /*async_op=*/pairs++ % 3 == 0);
          const auto wanted = distribute_tensor(value, to, b);
          ASSERT_EQ(spec(y), spec(wanted));
          for (size_t i = 0; i < local_tensors(wanted).size(); ++i)
            ASSERT_TRUE(same_bits(local_tensors(y)[i], local_tensors(wanted)[i]))
                << spec(x) << " -> " << spec(y) << ", " << i;
          ASSERT_TRUE(same_bits(full_tensor(redistribute(y, from, a)), value)) << spec(x) << ", " << spec(y);
        }
  EXPECT_GT(pairs, 2000);
}

// Each thread is a rank, and knows nothing of the others: stage by stage a model's ranks compute, those of
// the other stage hold nothing of it, and gradients go back the way the values came. Catches: who is not in a
// mesh and does not come to its exchanges, ops that need a local tensor to know what they give, a gradient
// that is lost between stages.
TEST(OtherMesh, StagesOfAModelOnRanksOfTheirOwn) {
  const auto value = at::arange(12, at::kFloat).reshape({4, 3});
  run_on_threads(4, std::chrono::seconds(20), [&](const WorldPtr& world) {
    const auto first = mesh_of({2}, {0, 1}, world), second = mesh_of({2}, {3, 2}, world);
    const bool in_first = world->hosted()[0] < 2;
    const auto x = parameter(distribute_tensor(value, first, {Shard{0}}));
    const auto half = x * 0.5;
    const auto y = redistribute(half, second, {Shard{1}});
    const auto loss = (y * y).sum();
    loss.backward();
    EXPECT_EQ(local_tensors(half).size(), in_first ? 1U : 0U);
    EXPECT_EQ(local_tensors(y).size(), in_first ? 0U : 1U);
    EXPECT_EQ(y.sizes(), value.sizes());
    EXPECT_EQ(placements(x.grad()), (Placements{Shard{0}}));
    if (in_first) {
      EXPECT_TRUE(same_bits(full_tensor(x.grad()), value * 0.5));
      EXPECT_TRUE(
          says(error_of([&] { full_tensor(loss); }), {"[full_tensor] no rank of mesh 2 is hosted here"}));
      EXPECT_TRUE(
          says(error_of([&] { (void)loss.item<float>(); }), {"hosts no rank of mesh 2", "redistribute"}));
      at::NoGradGuard no_grad;
      EXPECT_EQ((y.add_(1)).unsafeGetTensorImpl(), y.unsafeGetTensorImpl());
      EXPECT_EQ(y.chunk(2, 0).size(), 2U);
    } else {
      EXPECT_EQ(full_tensor(loss).item<float>(), (value * value).sum().item<float>() / 4);
    }
  });
}

// Catches: bytes of what a rank holds already, of one rank only, or one replica that serves all.
TEST(OtherMesh, SendsToOtherRanksWhatTheyLack) {
  const auto placed = [](std::vector<int64_t> ranks, const Placement& p) {
    const auto n = std::ssize(ranks);
    return std::make_shared<const Spec>(DeviceMesh({n}, {}, std::move(ranks)), Placements(1, p),
                                        std::vector<int64_t>{8, 6}, c10::kFloat);
  };
  EXPECT_EQ(route(placed({0, 1}, Shard{0}), placed({2, 3}, Shard{0})).bytes(), 48 * 4);
  EXPECT_EQ(route(placed({0, 1, 2, 3}, Shard{0}), placed({1, 0}, Replicate{})).bytes(), 2 * 36 * 4);
  EXPECT_EQ(route(placed({0, 1}, Replicate{}), placed({1, 2}, Replicate{})).bytes(), 48 * 4);
  const auto from = placed({0, 1, 2}, Replicate{}), to = placed({2, 5, 6, 7}, Shard{0});
  Moves moves(*from, *to);
  for (const auto& [target, source] :
       std::vector<std::pair<int64_t, int64_t>>{{0, 2}, {1, 1}, {2, 2}, {3, 0}}) {
    EXPECT_EQ(moves.sources(target), std::vector<int64_t>{source});
    EXPECT_EQ(moves.between(source, target).size(), 1U);
  }
  EXPECT_EQ(moves.targets(2), (std::vector<int64_t>{0, 2}));
}

// Catches: a gradient that stays on the mesh where it came, or pends there, or has one rank's part for two.
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
      for (const auto& ranks : {std::vector<int64_t>{0, 3, 2}, {1}, {2}}) {
        const auto z = parameter(distribute_tensor(value, mesh_of({2}, {1, 3}, world), {p}));
        const auto there = redistribute(z, mesh_of({std::ssize(ranks)}, ranks, world), {q});
        (there * there).sum().backward();
        EXPECT_EQ(spec(z.grad()).mesh(), spec(z).mesh());
        EXPECT_TRUE(same_bits(full_tensor(z.grad()), 2 * value)) << p << ", " << q;
      }
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

// Catches: meshes of two Worlds, between which tensors would be lost; one that an op would have to cross.
TEST(OtherMesh, RefusesByName) {
  const auto world = local_world(4);
  const auto x = distribute_tensor(at::ones({4}), mesh_of({2}, {0, 1}, world), {Shard{0}});
  const auto to = [&](const MeshInWorld& mesh) {
    return error_of([&] { redistribute(x, mesh, {Shard{0}}); });
  };
  EXPECT_NE(to(init_device_mesh({2})).find("of another world; give init_device_mesh"), std::string::npos);
  EXPECT_NE(error_of([&] { at::add(x, redistribute(x, mesh_of({2}, {1, 0}, world), {Shard{0}})); }), "");
}

}  // namespace
}  // namespace lockstep
