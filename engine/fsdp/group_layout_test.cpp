// SPDX-License-Identifier: Apache-2.0
// Where tensors of a group lie, against Layout: what a shard holds of a tensor is what its RaggedShard says.
#include "engine/fsdp/group_layout.h"

#include <c10/util/accumulate.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/layout/layout.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep::fsdp {
namespace {

SpecPtr whole(const DeviceMesh& mesh, const char* placements, std::vector<int64_t> shape,
              c10::ScalarType dtype = c10::kFloat) {
  return std::make_shared<const Spec>(mesh, parse_placements(placements), std::move(shape), dtype);
}

// Of this position's part of the whole, counted row-major, the interval that the sharded Spec leaves it.
Interval by_layout(const GroupLayout& layout, size_t i, int64_t position) {
  const auto flat = owned_by(*layout.sharded(i), position).flat;
  EXPECT_TRUE(flat.has_value());
  return {flat->start, flat->start + flat->length};
}

void check(const GroupLayout& layout, const std::vector<int64_t>& granularity) {
  const auto& mesh = layout.whole(0)->mesh();
  const int64_t line = 64 / static_cast<int64_t>(c10::elementSize(layout.dtype()));
  EXPECT_EQ(layout.plan().shard_size % line, 0);
  for (size_t i = 0; i < layout.size(); ++i) {
    SCOPED_TRACE(to_string(*layout.sharded(i)));
    const auto [start, end] = layout.plan().intervals[i];
    EXPECT_EQ(start % line, 0);
    for (int64_t p = 0; p < mesh.size(); ++p) {
      const int64_t place = mesh.coordinate(p)[static_cast<size_t>(layout.mesh_dim())];
      const int64_t here = c10::multiply_integers(local_shape(*layout.whole(i), p));
      const auto tensor = layout.in_tensor(i, p), shard = layout.in_shard(i, p);
      const int64_t n = tensor.end - tensor.start;
      EXPECT_EQ(n, shard.end - shard.start);
      if (n == 0) {
        EXPECT_EQ(numel(owned_by(*layout.sharded(i), p)), 0);
        continue;
      }
      EXPECT_EQ(tensor, by_layout(layout, i, p));
      EXPECT_EQ(place * layout.plan().shard_size + shard.start, start + tensor.start);
      EXPECT_TRUE(tensor.start % granularity[i] == 0) << "a block is cut";
      EXPECT_TRUE(tensor.end % granularity[i] == 0 || tensor.end == here) << "a block is cut";
      EXPECT_LE(start + tensor.end, end);
    }
  }
}

// Catches: units that are not those of the plan, blocks that a rank cuts, a start off its 64 bytes, a tensor
// cut by the shape of the whole where tp leaves a part.
TEST(GroupLayout, AShardHoldsWhatItsRaggedShardSays) {
  std::mt19937 draw(5);
  const auto below = [&draw](int64_t n) { return static_cast<int64_t>(draw() % static_cast<uint64_t>(n)); };
  const char* const meshes[][2] = {{"1", "[R]"},      {"2", "[R]"},      {"3", "[R]"},
                                   {"5", "[R]"},      {"8", "[R]"},      {"2x3", "[R,R]"},
                                   {"3x2", "[R,S0]"}, {"2x2", "[R,S1]"}, {"2x2", "[S0,R]"}};
  for (int round = 0; round < 400; ++round) {
    const auto& [mesh_text, placements] = meshes[static_cast<size_t>(below(std::size(meshes)))];
    const auto mesh = parse_mesh(mesh_text);
    const int64_t mesh_dim = is_replicate(parse_placements(placements)[0]) ? 0 : 1;
    const auto dtype = below(2) == 0 ? c10::kFloat : c10::kBFloat16;
    std::vector<GroupTensor> tensors;
    std::vector<int64_t> granularity;
    const int64_t even = below(2) == 0 ? 1 : 2;  // some that tp cuts unevenly
    for (int64_t n = 1 + below(4); n > 0; --n) {
      const int64_t rows = even * (1 + below(9)), columns = 2 * (1 + below(7)) - (below(5) == 0 ? 1 : 0);
      const int64_t cut = to_string(parse_placements(placements)).find("S1") != std::string::npos ? 2 : 1;
      granularity.push_back(below(2) == 0 ? 1 : (columns + cut - 1) / cut * (1 + below(4)));
      tensors.push_back({whole(mesh, placements, {rows, columns}, dtype), granularity.back()});
    }
    SCOPED_TRACE(concat("round ", round, ", mesh ", mesh_text));
    check(GroupLayout(tensors, mesh_dim, static_cast<Order>(below(4))), granularity);
  }
}

// The fewest dimensions: what reductions and blocks of rows ask of a RaggedShard.
TEST(GroupLayout, NamesTheFewestDimensionsThatTellTheCut) {
  const DeviceMesh mesh({2});
  const auto placed = [&](std::vector<int64_t> shape, int64_t granularity) {
    const GroupLayout layout({{whole(mesh, "[R]", std::move(shape)), granularity}}, 0);
    return to_string(layout.sharded(0)->placements());
  };
  EXPECT_EQ(placed({8, 16}, 16), "[G0:1/1]");
  EXPECT_EQ(placed({3, 16}, 16), "[G0:2/1]");
  EXPECT_EQ(placed({3, 20}, 1), "[G0.1:8/7]");  // 32 elements and 28
  EXPECT_EQ(placed({7}, 1), "[G:1/0]");         // one line of 64 bytes holds all
  EXPECT_EQ(placed({0, 4}, 1), "[G:1/0]");
  EXPECT_EQ(placed({}, 1), "[G:1/0]");
}

TEST(GroupLayout, TensorsLieInTheOrderAskedFor) {
  const DeviceMesh mesh({2});
  const std::vector<GroupTensor> tensors{{whole(mesh, "[R]", {4}), 1}, {whole(mesh, "[R]", {64}), 4}};
  EXPECT_EQ(GroupLayout(tensors, 0).plan().intervals[0].start, 0);
  EXPECT_EQ(GroupLayout(tensors, 0, Order::kShape).plan().intervals[1].start, 0);
}

// Catches: starts that are aligned for what is cut and gathered, and not for what is reduced in a narrower
// dtype.
TEST(GroupLayout, StartsAreAlignedInEachDtype) {
  const DeviceMesh mesh({2});
  const std::vector<GroupTensor> tensors{{whole(mesh, "[R]", {5}), 1}, {whole(mesh, "[R]", {70}), 1}};
  for (const auto& [dtypes, elements] :
       {std::pair(GroupDtypes{}, 16), std::pair(GroupDtypes{.gathered = c10::kHalf}, 32),
        std::pair(GroupDtypes{.reduced = c10::kBFloat16}, 32),
        std::pair(GroupDtypes{.gathered = c10::kDouble, .reduced = c10::kDouble}, 16)}) {
    const auto plan = GroupLayout(tensors, 0, Order::kDefault, dtypes).plan();
    EXPECT_EQ(plan.intervals[1].start, elements);
    EXPECT_EQ(plan.shard_size % elements, 0);
  }
}

// Where another dimension cuts unevenly, ranks along it have units of their own, in blocks of rows too.
// Catches: a cut that only some of the tp ranks have, a block that others cut.
TEST(GroupLayout, UnitsFollowWhatAnotherDimensionCutsUnevenly) {
  const DeviceMesh mesh({2, 2}, {"fsdp", "tp"});
  const GroupLayout layout({{whole(mesh, "[R,S0]", {21, 3}), 1}, {whole(mesh, "[R,S0]", {21, 16}), 16}}, 0);
  EXPECT_EQ(to_string(layout.sharded(0)->placements()), "[G:1/0,S0]");  // 33 and 30 elements
  EXPECT_EQ(to_string(layout.sharded(1)->placements()), "[G0:4/7|2/3,S0]");
  EXPECT_EQ(layout.in_tensor(1, 1), (Interval{0, 64}));
  EXPECT_EQ(layout.in_tensor(1, 2), (Interval{64, 176}));
  EXPECT_EQ(layout.in_tensor(1, 3), (Interval{64, 160}));
  // Rows of 3 elements are rows of no other rank's 2.
  const GroupLayout columns({{whole(mesh, "[R,S1]", {40, 5}), 3}}, 0);
  EXPECT_EQ(to_string(columns.sharded(0)->placements()), "[G:1/0,S1]");
  check(GroupLayout({{whole(mesh, "[R,S1]", {40, 5}), 1}}, 0), {1});
}

TEST(GroupLayout, SaysWhatDoesNotGoTogether) {
  const DeviceMesh mesh({2, 2}, {"fsdp", "tp"});
  const auto make = [](std::vector<GroupTensor> tensors) {
    return error_of([&] { GroupLayout(std::move(tensors), 0); });
  };
  EXPECT_NE(make({{whole(mesh, "[R,R]", {4})}, {whole(mesh, "[R,R]", {4}, c10::kHalf)}}).find("one dtype"),
            std::string::npos);
  EXPECT_NE(make({{whole(mesh, "[S0,R]", {4})}}).find("whole along fsdp"), std::string::npos);
  EXPECT_NE(make({{whole(mesh, "[R,P]", {4})}}).find("cut by a Shard"), std::string::npos);
  EXPECT_NE(make({}).find("no tensors"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::fsdp
