// SPDX-License-Identifier: Apache-2.0
// The laws of layout.h, on listed inputs and exhaustively on small meshes and shapes.
#include "engine/layout/layout.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Index = std::vector<int64_t>;

// Every global index of a box, in local row-major order.
std::vector<Index> indices(const std::vector<IndexList>& lists) {
  std::vector<Index> result{{}};
  for (const auto& list : lists) {
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

// Every global index that a rank holds, in the order of its elements in the local tensor.
std::vector<Index> held(const Owned& owned) {
  auto all = indices(owned.lists);
  if (!owned.flat.has_value()) return all;
  const auto first = all.begin() + owned.flat->start;
  return {first, first + owned.flat->length};
}

// Along mesh dimensions that distribute, the ranks' parts are disjoint and cover the tensor; along those that
// replicate or pend, they are equal. Catches: overlapping or lost chunks, shards that depend on the wrong
// coordinate.
void check_partition(const Spec& spec) {
  const auto& mesh = spec.mesh();
  for (int64_t base = 0; base < mesh.size(); ++base) {
    const auto home = mesh.coordinate(base);
    std::multiset<Index> all;
    for (int64_t p = 0; p < mesh.size(); ++p) {
      const auto at = mesh.coordinate(p);
      bool same_copy = true;
      for (int64_t d = 0; d < mesh.ndim(); ++d)
        if (!distributes(spec.placements()[static_cast<size_t>(d)]) &&
            at[static_cast<size_t>(d)] != home[static_cast<size_t>(d)])
          same_copy = false;
      if (!same_copy) continue;
      for (auto& index : held(owned_by(spec, p))) all.insert(std::move(index));
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

// Every way to give `blocks` units to `ranks` ranks.
std::vector<std::vector<int64_t>> all_units(int64_t ranks, int64_t blocks) {
  if (ranks == 1) return {{blocks}};
  std::vector<std::vector<int64_t>> result;
  for (int64_t mine = 0; mine <= blocks; ++mine)
    for (auto units : all_units(ranks - 1, blocks - mine)) {
      units.insert(units.begin(), mine);
      result.push_back(std::move(units));
    }
  return result;
}

std::vector<Placement> ragged_choices(int64_t ranks, int64_t most_blocks) {
  std::vector<Placement> result;
  for (const auto& dims : {Index{}, Index{0}, Index{0, 1}})
    for (int64_t blocks = 1; blocks <= most_blocks; ++blocks)
      for (const auto& units : all_units(ranks, blocks)) result.emplace_back(RaggedShard{dims, units});
  return result;
}

// The Spec, if it is legal.
std::optional<Spec> legal(const DeviceMesh& mesh, const Placements& placements, const Index& shape,
                          const Index& order = {}) {
  try {
    return Spec(mesh, placements, shape, contiguous_strides(shape), c10::kFloat, order);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The law of common_rows: beside any placement on the other mesh dimension, in both orders, a RaggedShard is
// legal if and only if its blocks divide the rows of every rank; and then parts are disjoint and cover.
// Catches: blocks that are no whole rows, units counted from the wrong rank, a Shard applied after it, a Spec
// refused that would do.
TEST(LayoutTest, RaggedPartsAreDisjointAndCoverExhaustively) {
  const DeviceMesh mesh({2, 2});
  std::map<bool, int64_t> count;
  for (const Index& shape : {Index{0, 2}, Index{1, 4}, Index{3, 2}, Index{4, 3}, Index{6, 1}})
    for (const auto& ragged : ragged_choices(2, 4))
      for (const auto& other : placement_choices(2))
        for (const bool first : {false, true}) {
          const auto placed = [&](const Placement& p) {
            return first ? Placements{p, other} : Placements{other, p};
          };
          bool whole = true;
          for (int64_t p = 0; p < mesh.size(); ++p) {
            const auto box = local_shape(Spec(mesh, placed(Replicate{}), shape, c10::kFloat), p);
            const auto& [dims, units, lists] = std::get<RaggedShard>(ragged);
            const int64_t rows = dims.empty() ? 1 : dims.size() == 1 ? box[0] : box[0] * box[1];
            whole = whole && rows % ((units[0] + units[1]) / std::gcd(units[0], units[1])) == 0;
          }
          const auto spec = legal(mesh, placed(ragged), shape);
          ASSERT_EQ(spec.has_value(), whole) << shape_text(shape) << placed(ragged);
          if (spec.has_value()) check_partition(*spec);
          ++count[whole];
        }
  EXPECT_GT(count[false], 300);
  EXPECT_GT(count[true], 1000);
}

// Two Shards and a RaggedShard on three mesh dimensions, in every place and order. Catches: an order that
// moves the RaggedShard from the end.
TEST(LayoutTest, RaggedIsAppliedLast) {
  const Placement ragged = RaggedShard{{0}, {2, 1}};
  const Index shape{12, 2};
  for (const Placements& placements :
       {Placements{ragged, Shard{0}, Shard{0}}, Placements{Shard{0}, ragged, Shard{0}},
        Placements{Shard{0}, Shard{1}, ragged}})
    for (const Index& order : {Index{}, Index{2, 1, 0}, Index{1, 2, 0}}) {
      const auto spec = legal(DeviceMesh({2, 2, 2}), placements, shape, order);
      ASSERT_TRUE(spec.has_value());
      check_partition(*spec);
    }
  // 12 rows of 2, the second half of them by the first mesh dimension; of these, the last of three blocks.
  const Spec spec(DeviceMesh({2, 2}), {Shard{0}, ragged}, {12, 2}, c10::kFloat);
  EXPECT_EQ(owned_by(spec, 3), (Owned{{{{6, 6}}, {{0, 2}}}, Interval{8, 4}}));
  EXPECT_EQ(local_shape(spec, 3), Index{4});
  EXPECT_EQ(local_stride(spec, {4}), Index{1});
}

// The law of pieces, for every interval of small boxes with gaps. Catches: a head or tail row lost or taken
// twice, more pieces than needed, a wrong place in the local tensor.
TEST(LayoutTest, PiecesCoverAnIntervalInOrder) {
  const std::vector<std::vector<IndexList>> boxes = {{{{2, 5}}},
                                                     {{{0, 3}}, {{1, 4}}},
                                                     {{{0, 1}, {4, 2}}, {{0, 2}, {3, 1}}},
                                                     {{{0, 2}}, {{1, 3}}, {{0, 1}, {2, 1}}},
                                                     {{{0, 2}}, {{0, 1}}, {{0, 2}}, {{5, 3}}}};
  for (const auto& box : boxes) {
    const auto n = static_cast<int64_t>(indices(box).size());
    for (int64_t begin = 0; begin <= n; ++begin)
      for (int64_t end = begin; end <= n; ++end) {
        const Owned owned(box, Interval{begin, end - begin});
        std::vector<Index> found;
        const auto parts = pieces(owned);
        for (const auto& piece : parts) {
          EXPECT_EQ(piece.start, static_cast<int64_t>(found.size()));
          for (auto& index : indices(piece.lists)) found.push_back(std::move(index));
        }
        EXPECT_EQ(found, held(owned));
        EXPECT_LE(parts.size(), 2 * box.size() - 1);
      }
    EXPECT_EQ(pieces(box).size(), 1u);
    EXPECT_EQ(pieces(box)[0].lists, box);
  }
  EXPECT_TRUE(pieces(std::vector<IndexList>{{}, {{0, 3}}}).empty());
  EXPECT_EQ(pieces(Owned(std::vector<IndexList>{})).size(), 1u);
  EXPECT_EQ(pieces(Owned(std::vector<IndexList>{}, Interval{0, 1})).size(), 1u);
  EXPECT_TRUE(pieces(Owned(std::vector<IndexList>{}, Interval{1, 0})).empty());
}

// veScale-FSDP's example: whole blocks of rows, one rank without any. Catches: units taken as row counts.
TEST(LayoutTest, RaggedSharesAreProportionalToUnits) {
  const Spec spec(DeviceMesh({4}), {RaggedShard{{0, 1}, {0, 1, 5, 2}}}, {4, 4, 3}, c10::kFloat);
  const std::vector<Interval> shares{{0, 0}, {0, 6}, {6, 30}, {36, 12}};
  for (int64_t p = 0; p < 4; ++p) EXPECT_EQ(owned_by(spec, p).flat, shares[static_cast<size_t>(p)]);
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
  EXPECT_EQ(owned_by(left, 1).lists[0], (IndexList{{2, 2}}));
  EXPECT_EQ(owned_by(right, 1).lists[0], (IndexList{{4, 2}}));
}

// The share of every piece. Catches: interleaving as one block, pieces cut after instead of before.
TEST(LayoutTest, InterleavedTakesAShareOfEveryPiece) {
  const Spec spec(DeviceMesh({2}), {InterleavedShard{0, 3}}, {12}, c10::kFloat);
  EXPECT_EQ(owned_by(spec, 0).lists[0], (IndexList{{0, 2}, {4, 2}, {8, 2}}));
  EXPECT_EQ(owned_by(spec, 1).lists[0], (IndexList{{2, 2}, {6, 2}, {10, 2}}));
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

}  // namespace
}  // namespace lockstep
