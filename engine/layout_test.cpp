// SPDX-License-Identifier: Apache-2.0
// The laws of layout.h, on listed inputs and exhaustively on small meshes and shapes.
#include "engine/layout.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Index = std::vector<int64_t>;

// Every global index that a rank holds, in local row-major order.
std::vector<Index> held(const std::vector<IndexList>& owned) {
  std::vector<Index> result{{}};
  for (const auto& list : owned) {
    std::vector<Index> longer;
    for (const auto& prefix : result)
      for (int64_t i = 0; i < length(list); ++i) {
        auto next = prefix;
        next.push_back(global_index(list, i));
        longer.push_back(std::move(next));
      }
    result = std::move(longer);
  }
  return result;
}

// Along mesh dimensions that shard, the ranks' parts are disjoint and cover the tensor; along those that
// replicate or pend, they are equal. Catches: overlapping or lost chunks, shards that depend on the wrong
// coordinate.
void check_partition(const Spec& spec) {
  const Layout layout(spec);
  const auto& mesh = spec.mesh();
  for (int64_t base = 0; base < mesh.size(); ++base) {
    const auto home = mesh.coordinate(base);
    std::multiset<Index> all;
    for (int64_t p = 0; p < mesh.size(); ++p) {
      const auto at = mesh.coordinate(p);
      bool same_copy = true;
      for (int64_t d = 0; d < mesh.ndim(); ++d)
        if (!is_shard(spec.placements()[static_cast<size_t>(d)]) &&
            at[static_cast<size_t>(d)] != home[static_cast<size_t>(d)])
          same_copy = false;
      if (!same_copy) continue;
      for (auto& index : held(layout.owned(p))) all.insert(std::move(index));
    }
    EXPECT_EQ(static_cast<int64_t>(all.size()), spec.numel()) << to_string(spec);
    EXPECT_EQ(static_cast<int64_t>(std::set<Index>(all.begin(), all.end()).size()), spec.numel())
        << to_string(spec);
  }
}

TEST(LayoutTest, PartsAreDisjointAndCoverExhaustively) {
  for (int64_t a = 0; a <= 5; ++a)
    for (int64_t b = 0; b <= 3; ++b)
      for (int64_t m = 1; m <= 4; ++m)
        for (const auto& p : placement_choices(2))
          check_partition(Spec(DeviceMesh({m}), {p}, {a, b}, c10::kFloat));
  int64_t checked = 0;
  for (int64_t a = 0; a <= 5; ++a)
    for (const auto& p : placement_choices(2))
      for (const auto& q : placement_choices(2))
        for (const auto& order : {std::vector<int64_t>{0, 1}, std::vector<int64_t>{1, 0}}) {
          check_partition(Spec(DeviceMesh({2, 3}), {p, q}, {a, 4}, {4, 1}, c10::kFloat, order));
          ++checked;
        }
  EXPECT_EQ(checked, 6 * 36 * 2);
}

// torch.chunk's rule. Catches: floor instead of ceil, a remainder spread over the first ranks (numpy's rule).
TEST(LayoutTest, ShardIsTorchChunk) {
  const Spec spec(DeviceMesh({4}), {Shard{0}}, {5}, c10::kFloat);
  const std::vector<std::vector<int64_t>> shapes{{2}, {2}, {1}, {0}};
  for (int64_t p = 0; p < 4; ++p) EXPECT_EQ(local_shape(spec, p), shapes[static_cast<size_t>(p)]);
}

// Two mesh dimensions on one tensor dimension. Catches: order ignored, or applied from the wrong end.
TEST(LayoutTest, OrderDecidesNesting) {
  const DeviceMesh mesh({2, 2});
  const Spec left(mesh, {Shard{0}, Shard{0}}, {8}, {1}, c10::kFloat);
  const Spec right(mesh, {Shard{0}, Shard{0}}, {8}, {1}, c10::kFloat, {1, 0});
  EXPECT_EQ(owned_by(left, 1)[0], (IndexList{{2, 2}}));
  EXPECT_EQ(owned_by(right, 1)[0], (IndexList{{4, 2}}));
}

// The share of every piece. Catches: interleaving as one block, pieces cut after instead of before.
TEST(LayoutTest, InterleavedTakesAShareOfEveryPiece) {
  const Spec spec(DeviceMesh({2}), {InterleavedShard{0, 3}}, {12}, c10::kFloat);
  EXPECT_EQ(owned_by(spec, 0)[0], (IndexList{{0, 2}, {4, 2}, {8, 2}}));
  EXPECT_EQ(owned_by(spec, 1)[0], (IndexList{{2, 2}, {6, 2}, {10, 2}}));
}

// Catches: locals laid out row-major whatever the global tensor's memory order.
TEST(LayoutTest, LocalStridesFollowMemoryOrder) {
  const Spec spec(DeviceMesh({2}), {Shard{0}}, {4, 6}, {1, 4}, c10::kFloat);
  EXPECT_EQ(local_stride(spec, {2, 6}), (std::vector<int64_t>{1, 2}));
}

// Where elements overlap or leave gaps, the whole local is what clone makes. Catches: an order of its own for
// expanded tensors, strides of size-1 dimensions that make matmul choose another way.
TEST(LayoutTest, DenseCopiesAreThoseOfClone) {
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> cases = {
      {{5, 1, 2}, {0, 1, 1}}, {{5, 1, 2}, {0, 2, 1}}, {{2, 2, 2}, {0, 1, 2}}, {{4, 3}, {8, 2}},
      {{3, 4}, {1, 9}},       {{1, 2}, {1, 1}},       {{2, 0, 3}, {0, 3, 1}}, {{2, 3}, {0, 0}}};
  for (const auto& [shape, stride] : cases) {
    const Spec spec(DeviceMesh({2}), {Replicate{}}, shape, stride, c10::kFloat);
    const auto clone = at::empty_strided(shape, stride).clone();
    EXPECT_EQ(at::IntArrayRef(local_stride(spec, shape)), clone.strides()) << spec;
  }
}

// Catches: a silent fallback of what is not built.
TEST(LayoutTest, RaggedShardSaysThatItIsNotBuilt) {
  const Spec spec(DeviceMesh({2}), {RaggedShard{{0}, {1, 3}}}, {4}, c10::kFloat);
  EXPECT_THROW(Layout{spec}, NotBuilt);
}

}  // namespace
}  // namespace lockstep
