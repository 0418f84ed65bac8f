// SPDX-License-Identifier: Apache-2.0
#include "suites/core/facts.h"

#include <gtest/gtest.h>

#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

std::set<std::string> rows_of_relu(const std::vector<int64_t>& mesh, const Placements& placements) {
  oracle::Case c;
  c.suite = "ops";
  c.mesh = DeviceMesh(mesh);
  c.program.inputs.push_back({.shape = {4, 4}, .values = {}});
  c.placements.push_back({placements, {}});
  c.program.calls.push_back({"aten::relu", {oracle::Ref{0}}});
  LockstepEngine engine;
  Facts facts;
  Observing(engine, facts).run(c, true);
  return facts.rows;
}

// The part of the names after the row.
std::multiset<std::string> ways(const std::set<std::string>& rows) {
  std::multiset<std::string> all;
  for (const auto& row : rows) all.insert(row.substr(row.rfind(']') + 1));
  return all;
}

// A sum that pends along one dimension is added before relu; along the other the tensor stays as it is cut.
// Catches: a way that is told of every mesh dimension alike, or of the op after.
TEST(Facts, TellsHowARowWasComeToAlongEachDimension) {
  const Placement sum = Partial{}, cut = Shard{0}, whole = Replicate{};
  using Ways = std::multiset<std::string>;
  EXPECT_EQ(rows_of_relu({2}, {cut}), std::set<std::string>{"aten::relu[S0>S0]stood"});
  EXPECT_EQ(ways(rows_of_relu({2}, {sum})), Ways{"moved"});
  EXPECT_EQ(ways(rows_of_relu({2, 2}, {cut, whole})), (Ways{"stood", "stood"}));
  const auto mixed = rows_of_relu({2, 2}, {cut, sum});
  EXPECT_TRUE(mixed.contains("aten::relu[S0>S0]cheapest")) << testing::PrintToString(mixed);
  EXPECT_EQ(ways(mixed), (Ways{"cheapest", "moved"}));
}

}  // namespace
}  // namespace lockstep::suites
