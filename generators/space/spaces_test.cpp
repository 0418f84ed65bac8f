// SPDX-License-Identifier: Apache-2.0
// Meshes, shapes and placements: drawn ones lie in their space, exhaustive ones are all of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "generators/space/misplaced.h"
#include "generators/space/testing.h"
#include "oracle/ownership/ownership.h"

namespace lockstep::generators {
namespace {

// Would catch: a mesh beyond the limit, or a table entry that no limit reaches.
TEST(Meshes, drawn_within_their_limit) {
  Random random(1);
  std::set<std::string> seen;
  int64_t unequal = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto mesh = draw_mesh(random, 16);
    EXPECT_LE(mesh.size(), 16);
    EXPECT_LE(mesh.ndim(), 3);
    seen.insert(to_string(DeviceMesh(mesh.shape())));
    unequal += std::set<int64_t>(mesh.shape().begin(), mesh.shape().end()).size() > 1 ? 1 : 0;
    EXPECT_LE(draw_mesh(random, 3).size(), 3);
  }
  EXPECT_GE(seen.size(), 27u);
  EXPECT_GE(unequal, 4000 * 40 / 100);  // they tell mesh axes apart
}

// Would catch: enumeration that misses a factorisation or repeats one. Counts by hand: sizes 1..n per
// dimension with product <= n.
TEST(Meshes, all_of_them_once) {
  EXPECT_EQ(all_meshes(4, 1).size(), 4u);
  EXPECT_EQ(all_meshes(4, 2).size(), 4u + 8u);  // 1x1..1x4, 2x1, 2x2, 3x1, 4x1
  EXPECT_EQ(all_meshes(8, 3).size(), 8u + 20u + 38u);
  std::set<std::string> seen;
  for (const auto& mesh : all_meshes(8, 3)) EXPECT_TRUE(seen.insert(to_string(mesh)).second);
}

// Would catch: shapes that outgrow their bound or fall below the least size; sizes that never meet the
// mesh's.
TEST(Shapes, drawn_around_the_mesh) {
  Random random(2);
  const DeviceMesh mesh({2, 3});
  std::map<int64_t, int64_t> sizes;
  for (int i = 0; i < 3000; ++i) {
    const auto shape = draw_shape(random, mesh, random.below(5), 100);
    EXPECT_LE(numel(shape), 100);
    for (const auto n : shape) ++sizes[n];
    for (const auto n : draw_shape(random, mesh, 3, 30, 1)) EXPECT_GE(n, 1);
  }
  for (const int64_t n : {0, 1, 2, 3, 4, 5, 6, 7}) EXPECT_GT(sizes[n], 60) << n;
}

TEST(Shapes, all_of_them_once) {
  EXPECT_EQ(all_shapes(0, 5).size(), 1u);
  EXPECT_EQ(all_shapes(2, 5).size(), 1u + 6u + 36u);
  const auto shapes = all_shapes(3, 3);
  EXPECT_EQ(std::set<Shape>(shapes.begin(), shapes.end()).size(), 1u + 4u + 16u + 64u);
}

// Would catch: a broadcastable shape that does not broadcast.
TEST(Shapes, broadcastable_ones_broadcast) {
  Random random(3);
  const DeviceMesh mesh({4});
  for (int i = 0; i < 500; ++i) {
    const auto shape = draw_shape(random, mesh, 3, 200);
    EXPECT_EQ(at::infer_size(shape, draw_broadcastable(random, shape)), shape);
  }
}

// Would catch: a Target that Spec refuses, a kind drawn though left out, a kind never drawn.
TEST(Placements, drawn_are_legal_and_of_the_kinds_asked_for) {
  Random random(4);
  std::map<std::string, int64_t> seen;
  for (int i = 0; i < 6000; ++i) {
    const auto mesh = draw_mesh(random, 8);
    const auto shape = draw_shape(random, mesh, random.below(4), 100);
    const auto dtype = random.pick({c10::ScalarType::Float, c10::ScalarType::Long, c10::ScalarType::Bool});
    const auto target = draw_target(random, mesh, shape, dtype);
    const Spec spec(mesh, target.placements, shape, contiguous_strides(shape), dtype, target.order);
    EXPECT_EQ(spec.order().empty() || spec.default_order(), target.order.empty()) << spec;
    if (dtype == c10::ScalarType::Bool) {
      EXPECT_FALSE(has_partial(target));
    }
    for (const auto& p : target.placements) {
      ++seen[distributes(p) ? to_string(p).substr(0, 1) : to_string(p)];
      const auto* ragged = std::get_if<RaggedShard>(&p);
      if (ragged == nullptr) continue;
      const auto [least, most] = std::minmax_element(ragged->units.begin(), ragged->units.end());
      ++seen[*least == *most ? "alike" : *least == 0 ? "a rank without" : "unequal"];
      seen["beside another shard"] +=
          std::count_if(target.placements.begin(), target.placements.end(), is_shard);
    }
    seen["other order"] += target.order.empty() ? 0 : 1;
    const auto plain = draw_target(random, mesh, shape, c10::ScalarType::Float, kShards);
    EXPECT_TRUE(plain.order.empty() && !has_partial(plain));
  }
  for (const char* kind : {"R", "S", "I", "G", "P", "Pavg", "Pmin", "Pmax", "Pprod", "other order", "alike",
                           "a rank without", "unequal", "beside another shard"})
    EXPECT_GT(seen[kind], 50) << kind;
}

// Would catch: a Target that Spec refuses; a shard of the last dimension that does not follow it to a shorter
// shape, or one of a dimension that broadcasts.
TEST(Placements, beside_another_is_legal_and_follows_its_dimensions) {
  Random random(6);
  int64_t cut = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto mesh = draw_mesh(random, 8);
    const auto shape = draw_shape(random, mesh, random.below(4), 100);
    const auto other = draw_target(random, mesh, shape, c10::ScalarType::Float);
    EXPECT_EQ(beside(other, shape, shape, c10::ScalarType::Float), other);
    const auto its = random.chance(50) ? draw_broadcastable(random, shape)
                                       : draw_shape(random, mesh, random.below(4), 100);
    const auto target = beside(other, shape, its, c10::ScalarType::Long);
    EXPECT_NO_THROW(
        Spec(mesh, target.placements, its, contiguous_strides(its), c10::ScalarType::Long, target.order));
    for (size_t d = 0; d < target.placements.size(); ++d) {
      const auto dim = shard_dim(target.placements[d]), from = shard_dim(other.placements[d]);
      if (dim < 0) continue;
      EXPECT_EQ(its[static_cast<size_t>(dim)], shape[static_cast<size_t>(from)]);
      ++cut;
    }
  }
  EXPECT_GT(cut, 1000);
  const Placements rows = {Shard{0}}, columns = {Shard{1}}, whole = {Replicate{}};
  EXPECT_EQ(beside({columns, {}}, {2, 3}, {3}, c10::ScalarType::Float).placements, rows);
  EXPECT_EQ(beside({columns, {}}, {2, 3}, {2, 1}, c10::ScalarType::Float).placements, whole);
  EXPECT_EQ(beside({columns, {}}, {4, 3}, {3, 5}, c10::ScalarType::Float).placements, rows);
}

// The elements of the rank that holds fewest.
int64_t fewest(const Spec& spec) {
  int64_t least = spec.numel();
  for (int64_t position = 0; position < spec.mesh().size(); ++position)
    least = std::min(least, numel(oracle::local_shape(spec, position)));
  return least;
}

// Would catch: placements that Spec refuses, that lack nothing, or that only ranks without elements tell from
// those that lack nothing; a kind of lack that is never drawn.
TEST(Placements, misplaced_ones_lack_what_is_needed) {
  Random random(5);
  std::map<std::string, int64_t> seen;
  for (int i = 0; i < 4000; ++i) {
    const auto mesh = draw_mesh(random, 8);
    const auto shape = draw_shape(random, mesh, random.below(4), 100);
    Needs needs{{}, random.chance(50), random.chance(30)};
    for (int64_t d = 0; d < std::ssize(shape); ++d)
      if (random.chance(40)) needs.whole.push_back(d);
    const auto target = draw_misplaced(random, mesh, shape, c10::ScalarType::Float, kAllPlacements, needs);
    if (!target) continue;
    const Spec spec(mesh, target->placements, shape, contiguous_strides(shape), c10::ScalarType::Float);
    EXPECT_GE(fewest(spec), 2) << spec;
    const bool cut =
        std::any_of(needs.whole.begin(), needs.whole.end(), [&](int64_t d) { return shards(*target, d); });
    const bool pends = needs.no_partial && has_partial(*target);
    const bool flat = (needs.no_ragged || !needs.whole.empty()) && has_ragged(*target);
    EXPECT_TRUE(cut || pends || flat) << spec;
    seen["cut"] += cut, seen["pends"] += pends, seen["flat"] += flat;
  }
  for (const char* lack : {"cut", "pends", "flat"}) EXPECT_GT(seen[lack], 200) << lack;
}

// Would catch: an enumeration that misses a Spec, repeats one, or offers one that is no Spec. On one mesh
// dimension of a matrix: R, two Shards, two Interleaved, five Partials.
TEST(Exhaustive, all_specs_once) {
  constexpr uint32_t kOthers = kAllPlacements & ~kRagged;
  EXPECT_EQ(all_targets(DeviceMesh({4}), {5, 5}, c10::ScalarType::Float, kOthers).size(), 10u);
  // Two dimensions: R and four shards pair freely (25), six nested ones also in the other order (+8),
  // Partials with R and shards (2 * 5 * 5), and with each other: five alike, sum with avg twice (7).
  EXPECT_EQ(all_targets(DeviceMesh({2, 2}), {5, 5}, c10::ScalarType::Float, kOthers).size(),
            25u + 8u + 50u + 7u);
  // R; of the 6 rows not 1/1/1/1; of the 12 elements all three; of the one block 0/0/0/1.
  EXPECT_EQ(all_targets(DeviceMesh({4}), {6, 2}, c10::ScalarType::Float, kRagged).size(), 1u + 2u + 3u + 1u);
  // R and two shards pair, but for the two nested ones; 1/1 and 0/1 of one or two dimensions
  // beside each, and 0/1 of none.
  EXPECT_EQ(all_targets(DeviceMesh({2, 2}), {4, 2}, c10::ScalarType::Float, kShards | kRagged).size(),
            7u + 2u * 5u * 3u);
  std::set<std::string> seen;
  visit_specs({.max_ranks = 4, .max_dims = 2, .max_size = 2}, [&](const Spec& spec) {
    EXPECT_TRUE(seen.insert(to_string(spec.mesh()) + to_string(spec)).second) << spec.mesh() << " " << spec;
  });
  EXPECT_GT(seen.size(), 3000u);
}

TEST(Exhaustive, pairs_are_the_square_of_specs) {
  const Space space{
      .max_ranks = 2, .max_mesh_dims = 1, .max_dims = 1, .max_size = 3, .placements = kShards | kSums};
  int64_t pairs = 0, squares = 0;
  visit_pairs(space, [&](const Spec& from, const Spec& to) { pairs += from.shape() == to.shape() ? 1 : 0; });
  for (const auto& mesh : all_meshes(2, 1))
    for (const auto& shape : all_shapes(1, 3)) {
      const auto n = static_cast<int64_t>(all_targets(mesh, shape, space.dtype, space.placements).size());
      squares += n * n;
    }
  EXPECT_EQ(pairs, squares);
  EXPECT_EQ(pairs, 2 * (3 * 3 + 4 * (4 * 4)));  // R, P, Pavg without dimensions; one Shard more with one
}

}  // namespace
}  // namespace lockstep::generators
