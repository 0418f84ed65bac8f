// SPDX-License-Identifier: Apache-2.0
// Ops on meshes that are made of the Program's: which these are, and what lies on them.
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "oracle/program/statements.h"

namespace lockstep::oracle {
namespace {

using Ints = std::vector<int64_t>;

Target at(std::string_view placements, Ints order = {}) {
  return {parse_placements(placements), std::move(order)};
}

std::string problem_of(const Case& c) {
  try {
    validate(c);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

// A mesh_map of neg on meshes so made, with these placements of operand, gradient and result.
Case on_meshes(const char* meshes, const std::vector<Target>& placements) {
  Case c;
  c.mesh = DeviceMesh({2, 2, 2});
  c.program.inputs = {{c10::ScalarType::Float, {7, 13}, {}, {ValueKind::kNormal, 3, 0, 0, {}}, false}};
  c.placements = {at("[S0,R,R]")};
  c.program.calls = {{"lockstep::mesh_map", {std::string(meshes), std::string("aten::neg"), Ref{0}}, 1}};
  auto& args = c.program.calls[0].args;
  args.insert(args.end(), placements.begin(), placements.end());
  args.emplace_back(Ints{7, 13});
  return c;
}

// Would catch: meshes of a mesh_map that are lost, or others than are written.
TEST(Statement, AMeshMapSaysWhichMeshes) {
  const auto all = [](const char* placements) { return std::vector<Target>(3, at(placements)); };
  const auto some = on_meshes("0.2", all("[S0,S1,R]"));
  const auto map = local_map_of(some.program.calls[0]);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->op, "aten::neg");
  EXPECT_EQ(map->kept, (Ints{0, 2}));
  EXPECT_TRUE(map->keeps(0) && !map->keeps(1) && map->keeps(2) && !map->flat);
  const auto flat = local_map_of(on_meshes("flat", all("[R,R,R]")).program.calls[0]);
  ASSERT_TRUE(flat);
  EXPECT_TRUE(flat->flat && flat->keeps(0) && flat->keeps(2));
  const std::vector<Case> cases = {some, on_meshes("flat", all("[S1,S1,S1]")),
                                   on_meshes("flat", all("[R,R,R]")),
                                   on_meshes("1", std::vector<Target>(3, at("[S0,S0,R]", {0, 2, 1}))),
                                   on_meshes("2", {at("[S0,R,S0]"), at("[S0,R,S0]"), at("[P,S0,R]")})};
  for (const Case& c : cases) {
    EXPECT_NO_THROW(validate(c)) << to_token(c);
    EXPECT_EQ(parse_token(to_token(c)), c);
    EXPECT_EQ(token_version(c), 2);
  }
}

// Would catch: meshes that there are not, and parts that no DTensor on them has.
TEST(Validate, NamesTheFaultOfAMeshMap) {
  const auto all = [](const char* placements) { return std::vector<Target>(3, at(placements)); };
  Case sum = on_meshes("1", {at("[R,R,R]"), at("[R,R,R]"), at("[R,R,R]")});
  auto& args = sum.program.calls[0].args;
  args[1] = std::string("aten::sum");
  args.insert(args.begin() + 3, None{});
  args.back() = Ints{};
  Case small = on_meshes("flat", std::vector<Target>(3, at("[R]")));
  small.mesh = DeviceMesh({2});
  small.placements = {at("[R]")};
  Case in_place = on_meshes("1", all("[R,R,R]"));
  in_place.program.calls[0].args[1] = std::string("aten::neg_");
  const std::vector<std::pair<std::string, Case>> faults = {
      {"it takes a mesh", on_meshes("tp", all("[R,R,R]"))},
      {"it takes a mesh", on_meshes("", all("[R,R,R]"))},
      {"keeps some of the dimensions 0 to 2", on_meshes("3", all("[R,R,R]"))},
      {"keeps some of the dimensions 0 to 2", on_meshes("1.0", all("[R,R,R]"))},
      {"keeps some of the dimensions 0 to 2", on_meshes("0.1.2", all("[R,R,R]"))},
      {"a mesh of one dimension is flat", small},
      {"may depend on who has which part", sum},
      {"goes over the whole mesh", on_meshes("1", {at("[R,R,R]"), at("[R,R,R]"), at("[G0:1/6,R,R]")})},
      {"is the terms of a sum, all are", on_meshes("1", {at("[R,P,R]"), at("[R,R,R]"), at("[R,R,R]")})},
      {"shows nowhere else", in_place},
      {"nothing pends along", on_meshes("1", {at("[R,R,R]"), at("[R,R,R]"), at("[R,P,R]")})},
      {"as its operand is", on_meshes("1", {at("[R,R,R]"), at("[R,P,R]"), at("[R,R,R]")})},
      {"cut after the others", on_meshes("1", all("[R,S0,S0]"))},
      {"the same S, from left to right", on_meshes("flat", all("[R,S0,S0]"))},
      {"the same S, from left to right", on_meshes("flat", all("[I0x7,I0x7,I0x7]"))},
      {"the same S, from left to right",
       on_meshes("flat", std::vector<Target>(3, at("[S0,S0,S0]", {2, 1, 0})))},
      {"must be a permutation", on_meshes("1", std::vector<Target>(3, at("[R,R,R]", {0, 0, 1})))},
  };
  for (const auto& [expected, c] : faults) {
    const auto told = problem_of(c);
    EXPECT_NE(told.find(expected), std::string::npos) << expected << "\n" << told;
  }
  sum.integer_lane = true;
  EXPECT_NO_THROW(validate(sum));
}

}  // namespace
}  // namespace lockstep::oracle
