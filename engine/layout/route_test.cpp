// SPDX-License-Identifier: Apache-2.0
// Routes: planned without ranks; executing any of them gives the values that a plain copy gives.
#include "engine/layout/route.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <numeric>

#include "engine/layout/held.h"
#include "engine/move/execute.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/dtensor_impl.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/world/fold.h"

namespace lockstep {
namespace {

SpecPtr spec_of(std::vector<int64_t> mesh, Placements placements, std::vector<int64_t> shape,
                std::vector<int64_t> order = {}) {
  auto stride = contiguous_strides(shape);
  return std::make_shared<const Spec>(DeviceMesh(std::move(mesh)), std::move(placements), std::move(shape),
                                      std::move(stride), c10::kFloat, std::move(order));
}

std::vector<StepKind> kinds(const Route& r) {
  std::vector<StepKind> result;
  for (const auto& s : r.steps) result.push_back(s.kind);
  return result;
}

using Kinds = std::vector<StepKind>;

// Catches: a collective where a slice is enough, an all-reduce where a reduce-scatter is enough.
TEST(RouteTest, TakesTheCheapestStep) {
  const auto plan = [](Placements from, Placements to) {
    return kinds(route(spec_of({2}, from, {4, 6}), spec_of({2}, to, {4, 6})));
  };
  EXPECT_EQ(plan({Shard{0}}, {Shard{0}}), Kinds{});
  EXPECT_EQ(plan({Replicate{}}, {Shard{1}}), Kinds{StepKind::kSlice});
  EXPECT_EQ(plan({Shard{0}}, {Replicate{}}), Kinds{StepKind::kAllGather});
  EXPECT_EQ(plan({Shard{0}}, {Shard{1}}), Kinds{StepKind::kAllToAll});
  EXPECT_EQ(plan({Partial{}}, {Replicate{}}), Kinds{StepKind::kAllReduce});
  EXPECT_EQ(plan({Partial{}}, {Shard{0}}), Kinds{StepKind::kReduceScatter});
  EXPECT_EQ(plan({Replicate{}}, {Partial{}}), Kinds{StepKind::kMakePartial});
  EXPECT_EQ(plan({Shard{0}}, {Partial{}}), (Kinds{StepKind::kAllGather, StepKind::kMakePartial}));
}

// Catches: gathering only along the outer of two nested shards, which interleaves the pieces wrongly.
TEST(RouteTest, NestedShardsExchange) {
  const auto r =
      route(spec_of({2, 2}, {Shard{0}, Shard{0}}, {8}), spec_of({2, 2}, {Replicate{}, Shard{0}}, {8}));
  EXPECT_EQ(kinds(r), Kinds{StepKind::kExchange});
}

// Bytes received from others. Catches: counting what stays, or one rank only.
TEST(RouteTest, CountsBytesReceived) {
  const auto bytes = [](Placements from, Placements to) {
    return route(spec_of({2}, from, {4, 6}), spec_of({2}, to, {4, 6})).bytes();
  };
  EXPECT_EQ(bytes({Shard{0}}, {Replicate{}}), 2 * 12 * 4);
  EXPECT_EQ(bytes({Partial{}}, {Replicate{}}), 2 * 24 * 4);
  EXPECT_EQ(bytes({Partial{}}, {Shard{0}}), 24 * 4);
  EXPECT_EQ(bytes({Replicate{}}, {Shard{0}}), 0);
}

// What a route costs is told without a list of the ranks: it is what the ranks one by one miss. Every pair of
// placements on 2x3 and every third on 2x3x2, in both orders, uneven shapes. Catches: tensor dimensions that
// two mesh dimensions tie together, or one cuts twice, counted as if they were independent.
TEST(RouteTest, CostsWhatTheRanksOneByOneMiss) {
  int64_t pairs = 0;
  const auto compare = [&](const std::vector<int64_t>& mesh, const Placements& a, const Placements& b) {
    const auto from = spec_of(mesh, a, {5, 7}), straight = spec_of(mesh, b, {5, 7});
    std::vector<int64_t> reversed(mesh.size());
    std::iota(reversed.rbegin(), reversed.rend(), 0);
    for (const auto& to : {*straight, straight->with_placements(b, reversed)}) {
      int64_t held = 0, kept = 0;
      for (int64_t p = 0; p < to.mesh().size(); ++p) {
        held += numel(owned_by(to, p));
        for (const auto& t : kept_at(*from, to, p)) kept += t.at_target.numel();
      }
      ASSERT_EQ(held_by_all(to), held) << to;
      ASSERT_EQ(kept_by_all(*from, to), kept) << *from << " -> " << to;
      ++pairs;
    }
  };
  const auto all = placement_choices(2);
  for (const auto& a : all)
    for (const auto& b : all)
      for (const auto& c : all)
        for (const auto& d : all) {
          compare({2, 3}, {a, b}, {c, d});
          if (pairs % 3 == 0) compare({2, 3, 2}, {a, b, d}, {c, a, b});
        }
  EXPECT_GT(pairs, 3000);
}

// Catches: an order that is not declared, or declared for the wrong mesh dimension.
TEST(RouteTest, DeclaresTheOrderOfItsReductions) {
  const auto order = [](Placements from, Placements to) {
    return to_string(route(spec_of({2, 3}, from, {4}), spec_of({2, 3}, to, {4})).order());
  };
  const Placement sum = Partial{}, average = Partial{ReduceOp::kAvg}, whole = Replicate{};
  EXPECT_EQ(order({sum, average}, {whole, whole}),
            "over 0.1: sum/3:f32(fold (fold 0 3) (fold 1 4) (fold 2 5))");
  EXPECT_EQ(order({sum, average}, {sum, Shard{0}}), "over 1: sum/3:f32(fold 0 1 2)");
  EXPECT_EQ(order({whole, Shard{0}}, {whole, whole}), "none");
}

// Every pair of placements on 2x3, both orders, an uneven shape: a round trip keeps the bits, and the fast
// collectives agree with the general exchange, since both must give the value. Integers, so that sums are
// exact.
TEST(RouteTest, EveryPairOfPlacementsKeepsTheValue) {
  const auto mesh = init_device_mesh({2, 3});
  const auto value = at::arange(35, at::kFloat).reshape({5, 7});
  const auto all = placement_choices(2);
  int64_t pairs = 0;
  for (const auto& a : all)
    for (const auto& b : all)
      for (const auto& c : all)
        for (const auto& d : all) {
          const auto x = distribute_tensor(value, mesh, {a, b});
          const auto order = pairs % 2 == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{1, 0};
          const auto y = redistribute(x, {c, d}, order);
          EXPECT_EQ(placements(y), (Placements{c, d}));
          for (const auto& local : to_local(redistribute(y, {Replicate{}, Replicate{}})))
            ASSERT_TRUE(local.equal(value)) << spec(x) << " -> " << spec(y);
          ++pairs;
        }
  EXPECT_EQ(pairs, 36 * 36);
}

// What stands beside a RaggedShard on the other mesh dimension, and the ragged placements themselves.
std::vector<Placements> ragged_pairs() {
  std::vector<Placements> result;
  for (const auto& beside : placement_choices(2)) {
    for (const auto& units : {std::vector<int64_t>{1, 1, 1}, {0, 1, 0}, {1, 0, 2}})
      for (const auto& dims : {std::vector<int64_t>{0}, {0, 1}})
        result.push_back({beside, RaggedShard{dims, units}});
    result.push_back({RaggedShard{{0}, {2, 1}}, beside});
    result.push_back({RaggedShard{{0, 1}, {0, 1}}, beside});
  }
  return result;
}

bool is_legal(const Placements& placements, const std::vector<int64_t>& shape) {
  try {
    spec_of({2, 3}, placements, shape);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// To and from every RaggedShard, beside every placement, on 2x3: the value stays, and every rank's local is
// what distributing gives it. Catches: pieces of a flat local packed in another order than unpacked, a
// reduce-scatter or all-gather of flat locals, a RaggedShard taken for replicas.
TEST(RouteTest, EveryPairWithARaggedShardKeepsTheValue) {
  const auto mesh = init_device_mesh({2, 3});
  const std::vector<int64_t> shape{12, 6};
  const auto value = at::arange(72, at::kFloat).reshape(shape);
  auto all = ragged_pairs();
  for (const auto& a : placement_choices(2))
    for (const auto& b : placement_choices(2)) all.push_back({a, b});
  std::erase_if(all, [&](const Placements& p) { return !is_legal(p, shape); });
  EXPECT_GT(all.size(), 60u);
  for (const auto& from : all) {
    const auto x = distribute_tensor(value, mesh, from);
    for (const auto& to : all) {
      if (!is_flat(spec(x)) && !is_flat(*spec_of({2, 3}, to, shape))) continue;
      const auto y = redistribute(x, to);
      for (const auto& local : to_local(redistribute(y, {Replicate{}, Replicate{}})))
        ASSERT_TRUE(local.equal(value)) << spec(x) << " -> " << spec(y);
      if (spec(y).has_partial()) continue;
      const auto direct = local_tensors(distribute_tensor(value, mesh, to));
      for (size_t r = 0; r < direct.size(); ++r)
        ASSERT_TRUE(local_tensors(y)[r].equal(direct[r])) << spec(x) << " -> " << spec(y) << " rank " << r;
    }
  }
}

// The fast collectives move boxes, and flat locals are none, but for what is reduced: each rank gets the
// terms of what it keeps. Cutting and other names of the same cut are free. Catches: a reduce-scatter whose
// pieces are not those of the target, an all-reduce of what hardly anybody keeps.
TEST(RouteTest, RaggedShardsTakeTheGeneralExchange) {
  const auto plan = [](Placements from, Placements to) {
    return kinds(route(spec_of({2, 2}, from, {4, 6}), spec_of({2, 2}, to, {4, 6})));
  };
  const Placement r = Replicate{}, g = RaggedShard{{0}, {1, 3}};
  EXPECT_EQ(plan({r, r}, {r, g}), Kinds{StepKind::kSlice});
  EXPECT_EQ(plan({r, g}, {r, RaggedShard{{0, 1}, {1, 3}}}), Kinds{StepKind::kSlice});
  EXPECT_EQ(plan({r, g}, {r, r}), Kinds{StepKind::kExchange});
  EXPECT_EQ(plan({r, g}, {r, RaggedShard{{0}, {3, 1}}}), Kinds{StepKind::kExchange});
  EXPECT_EQ(plan({Shard{1}, g}, {r, g}), Kinds{StepKind::kExchange});
  EXPECT_EQ(plan({Shard{1}, g}, {Shard{1}, Shard{0}}), Kinds{StepKind::kExchange});
  EXPECT_EQ(plan({r, Partial{}}, {r, g}), Kinds{StepKind::kReduceScatter});
  EXPECT_EQ(plan({Shard{1}, Partial{}}, {Shard{1}, g}), Kinds{StepKind::kReduceScatter});
  EXPECT_EQ(plan({Partial{}, Partial{}}, {g, r}), (Kinds{StepKind::kReduceScatter, StepKind::kAllReduce}));
  // Parts are added up, not wholes: whichever mesh dimension they are cut along.
  for (const Placement& cut : {g, Placement(Shard{0})}) {
    EXPECT_EQ(plan({Partial{}, Partial{}}, {r, cut}),
              (Kinds{StepKind::kReduceScatter, StepKind::kAllReduce}));
    EXPECT_EQ(
        route(spec_of({2, 2}, {Partial{}, Partial{}}, {4, 6}), spec_of({2, 2}, {r, cut}, {4, 6})).bytes(),
        (2 * 24 + 2 * 24) * 4);
  }
  EXPECT_EQ(plan({Partial{}, Partial{}}, {g, Shard{1}}),
            (Kinds{StepKind::kReduceScatter, StepKind::kReduceScatter}));
  EXPECT_EQ(plan({Partial{}, Partial{}}, {g, Partial{}}), Kinds{StepKind::kReduceScatter});
  // What else moves goes on from parts.
  const Kinds scattered{StepKind::kReduceScatter, StepKind::kExchange};
  EXPECT_EQ(plan({Shard{1}, Partial{}}, {r, g}), scattered);
  EXPECT_EQ(plan({r, Partial{}}, {r, InterleavedShard{0, 2}}), scattered);
  // A tensor of no dimensions has none to scatter along.
  const Placement all = RaggedShard{{}, {0, 1}};
  const auto scalar =
      route(spec_of({2, 2}, {Partial{}, Partial{}}, {}), spec_of({2, 2}, {Partial{ReduceOp::kMax}, all}, {}));
  EXPECT_EQ(kinds(scalar),
            (Kinds{StepKind::kAllReduce, StepKind::kAllReduce, StepKind::kSlice, StepKind::kMakePartial}));
  EXPECT_EQ(route(spec_of({2, 2}, {r, Partial{}}, {4, 6}), spec_of({2, 2}, {r, g}, {4, 6})).bytes(),
            2 * 24 * 4);
  EXPECT_EQ(plan({Partial{}, g}, {Shard{1}, g}), (Kinds{StepKind::kAllReduce, StepKind::kSlice}));
  EXPECT_EQ(route(spec_of({2, 2}, {r, g}, {4, 6}), spec_of({2, 2}, {r, r}, {4, 6})).bytes(), 2 * 24 * 4);
  EXPECT_EQ(dual(Placements{g, Partial{}}), (Placements{g, r}));
}

// What pends where the target is cut is reduced in parts, whatever else moves. Every pair on 2x3 that
// reduces. Catches: parts that move on in more bytes than the whole on every rank, a target for which nothing
// is scattered.
TEST(RouteTest, ReducesInNoMoreBytesThanByWholes) {
  const std::vector<int64_t> mesh{2, 3}, shape{12, 6};
  auto all = ragged_pairs();
  for (const auto& a : placement_choices(2))
    for (const auto& b : placement_choices(2)) all.push_back({a, b});
  std::erase_if(all, [&](const Placements& p) { return !is_legal(p, shape); });
  int64_t fewer = 0;
  for (const auto& a : all) {
    const auto from = spec_of(mesh, a, shape);
    if (!from->has_partial() || is_flat(*from)) continue;
    for (const auto& b : all) {
      const auto to = spec_of(mesh, b, shape);
      auto reduced = a;
      int64_t wholes = 0, cut = 0;
      for (size_t d = 0; d < a.size(); ++d) {
        if (!is_partial(a[d]) || a[d] == b[d]) continue;
        reduced[d] = Replicate{};
        wholes += held_by_all(*from) * 4 * (mesh[d] - 1);
        cut += distributes(b[d]);
      }
      const auto least = route(from, to).bytes();
      const auto by_wholes = wholes + route(spec_of(mesh, reduced, shape), to).bytes();
      ASSERT_LE(least, by_wholes) << *from << " -> " << *to;
      ASSERT_EQ(std::ranges::count(kinds(route(from, to)), StepKind::kReduceScatter), cut)
          << *from << " -> " << *to;
      fewer += least < by_wholes;
    }
  }
  EXPECT_GT(fewer, 200);
}

// The step that carries the gradient back: slice <-> gather, the others reversed.
StepKind reversed(StepKind kind) {
  if (kind == StepKind::kSlice) return StepKind::kAllGather;
  return kind == StepKind::kAllGather ? StepKind::kSlice : kind;
}

// The dual of a route is the route of the duals. Catches: a second, different backward.
TEST(RouteTest, DualsReverse) {
  for (const auto& [from, to] : {std::pair<Placement, Placement>{Shard{0}, Replicate{}},
                                 {Replicate{}, Shard{1}},
                                 {Shard{0}, Shard{1}}}) {
    const auto forward = route(spec_of({2}, {from}, {4, 6}), spec_of({2}, {to}, {4, 6}));
    const auto backward = route(spec_of({2}, dual({to}), {4, 6}), spec_of({2}, dual({from}), {4, 6}));
    EXPECT_EQ(kinds(backward), Kinds{reversed(forward.steps[0].kind)});
  }
}

// x op identity = x in bits. Catches: +0.0 as the identity of a sum, which loses -0.0.
TEST(RouteTest, IdentitiesKeepEveryBit) {
  const auto x = at::tensor({-0.0f, 0.0f, 1.5f});
  for (const auto op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax}) {
    Fold fold(op);
    fold.add(x);
    fold.add(at::full_like(x, identity(op, at::kFloat)));
    const auto y = fold.result();
    EXPECT_TRUE(y.view(at::kInt).equal(x.view(at::kInt))) << name(op);
  }
}

// Bytes that a route holds, beside the Specs that it is between.
size_t held_by_route(std::vector<int64_t> mesh) {
  const auto whole = spec_of(std::move(mesh), {Shard{0}, Partial{}}, {131072, 4096});
  const auto from = std::make_shared<const Spec>(*whole);
  const auto to = std::make_shared<const Spec>(whole->with_placements({Replicate{}, Shard{1}}, {0, 1}));
  const auto bytes = [] {
    const auto all = mallinfo2();
    return all.uordblks + all.hblkhd;
  };
  const auto before = bytes();
  const auto way = route(from, to);
  const auto after = bytes();
  for (const auto& step : way.steps) EXPECT_EQ(&step.to->mesh().ranks(), &whole->mesh().ranks());
  return after - before;
}

// Catches: a route that has the ranks in it, or a copy of a mesh that has.
TEST(Route, TakesNoMoreMemoryForMoreRanks) {
  const auto few = held_by_route({2, 4});
  EXPECT_LE(held_by_route({128, 1024}), few + few / 4 + 64);
}

}  // namespace
}  // namespace lockstep
