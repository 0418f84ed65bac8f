// SPDX-License-Identifier: Apache-2.0
#include "engine/layout/sharding_table.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

Spec spec_of(const std::string& mesh, const std::string& placements, std::vector<int64_t> shape) {
  return Spec(parse_mesh(mesh), parse_placements(placements), shape, contiguous_strides(shape),
              c10::ScalarType::Float);
}

// Catches: a table whose rows are columns, ranks by their positions, a term that looks like a copy.
TEST(ShardingTable, IsReadAsItIs) {
  EXPECT_EQ(visualize_sharding(spec_of("dp:2,tp:2", "[S0,S1]", {7, 5})),
            "          columns 0-2  columns 3-4\n"
            "rows 0-3  0            1\n"
            "rows 4-6  2            3\n");
  EXPECT_EQ(visualize_sharding(spec_of("dp:2,tp:2", "[S0,R]", {8})),
            "  columns 0-3  columns 4-7\n"
            "  0, 1         2, 3\n");
  EXPECT_EQ(visualize_sharding(spec_of("dp:2,tp:2", "[P,S0]", {2, 1})),
            "       column 0\n"
            "row 0  0, 2\n"
            "row 1  1, 3\n"
            "each rank's is a term: P along dp\n");
  const DeviceMesh turned({2}, {"tp"}, {1, 0});
  EXPECT_EQ(visualize_sharding(Spec(turned, {Shard{0}}, {4}, {1}, c10::ScalarType::Float)),
            "  columns 0-1  columns 2-3\n"
            "  1            0\n");
  EXPECT_EQ(visualize_sharding_html(spec_of("tp:2", "[R]", {2})),
            "<table class=\"sharding\"><tr><th></th><th>columns 0-1</th></tr>\n"
            "<tr><th></th><td style=\"background:hsl(0,60%,82%)\">0, 1</td></tr>\n</table>\n");
  EXPECT_THROW(visualize_sharding(spec_of("tp:2", "[R]", {2, 2, 2})), Error);
  EXPECT_THROW(visualize_sharding(spec_of("tp:2", "[R]", {})), Error);
}

// The law, of every element. Catches: a cell that is larger than what a rank holds, a part of a ragged one
// that is lost.
TEST(ShardingTable, SaysOfEachElementWhoHoldsIt) {
  for (const auto* placements : {"[S0,S1]", "[S1,S0]", "[R,S0]", "[S0,S0]", "[G0:1/2,R]", "[G0.1:0/1/5,S1]",
                                 "[I0x2,R]", "[P,S1]", "[S1,I1x3]"}) {
    const auto parsed = parse_placements(placements);
    const bool three = std::string_view(placements).find("/5") != std::string_view::npos;
    const auto spec = spec_of(three ? "a:3,b:2" : "a:2,b:2", placements, {6, 8});
    const auto table = sharding_table(spec);
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t j = 0; j < 8; ++j) {
        std::vector<int64_t> expected;
        for (int64_t p = 0; p < spec.mesh().size(); ++p)
          for (const auto& piece : pieces(owned_by(spec, p))) {
            const auto has = [](const IndexList& list, int64_t at) {
              return std::any_of(list.begin(), list.end(), [&](const Interval& part) {
                return part.start <= at && at < part.start + part.length;
              });
            };
            if (has(piece.lists[0], i) && has(piece.lists[1], j)) expected.push_back(p);
          }
        int64_t cells = 0;
        for (size_t r = 0; r < table.rows.size(); ++r)
          for (size_t c = 0; c < table.columns.size(); ++c) {
            const auto &row = table.rows[r], &column = table.columns[c];
            if (i < row.start || i >= row.start + row.length || j < column.start ||
                j >= column.start + column.length)
              continue;
            ++cells;
            EXPECT_EQ(table.ranks[r][c], expected) << placements << " at " << i << ", " << j;
          }
        EXPECT_EQ(cells, 1) << placements;
      }
  }
}

}  // namespace
}  // namespace lockstep
