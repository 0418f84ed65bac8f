// SPDX-License-Identifier: Apache-2.0
// The space of random operators: the covering array meets every pair, cases have the points they were made
// for, and what is read off a case is what brute force says.
#include "generators/random/random_space.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/error.h"
#include "generators/cases/programs.h"
#include "generators/program/trial.h"
#include "oracle/ownership/ownership.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/values.h"
#include "oracle/random/random_simulation.h"

namespace lockstep::generators {
namespace {

size_t position(size_t axis, const std::string& name) {
  const auto& names = axis_values(axis);
  return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
}

// Would catch: a pair that exists and that no point of the array has; an array that grew out of hand; points
// that do not exist.
TEST(RandomSpace, TheArrayMeetsEveryPair) {
  std::set<RandomPair> met;
  for (const auto& point : covering_points()) {
    EXPECT_EQ(absent(point), Absent::kNo);
    for (const auto& pair : pairs_of(point)) met.insert(pair);
  }
  int64_t exist = 0;
  for (const auto& [pair, why] : random_pairs()) {
    exist += why == Absent::kNo ? 1 : 0;
    EXPECT_EQ(met.contains(pair), why == Absent::kNo) << to_string(pair);
  }
  EXPECT_GE(exist, 1400);
  EXPECT_LE(covering_points().size(), 800u);
}

// Would catch: a case that lost the point it was made for (an operator, dtype, placement, evenness or size
// other than asked for); a chain that never has a second operator.
TEST(RandomSpace, CasesHaveTheirPoints) {
  size_t more = 0;
  for (size_t i = 0; i < covering_points().size(); ++i) {
    const auto& point = covering_points()[i];
    const auto c = random_point_case(Random(5).split(i), point);
    const auto points = random_points(c);
    EXPECT_NE(std::find(points.begin(), points.end(), point), points.end()) << oracle::describe(c);
    more += points.size() > 1 ? 1 : 0;
  }
  EXPECT_GE(more * 2, covering_points().size());
}

// Would catch: a case that cannot be shrunk, because its trial is refused.
TEST(RandomSpace, EveryCaseHasATrial) {
  for (size_t i = 0; i < 2 * covering_points().size(); ++i) {
    const auto c = random_suite_case(Random(8).split(i), i);
    EXPECT_TRUE(trial(c.program).has_value()) << oracle::describe(c);
  }
}

// Would catch: an evenness that the cuts do not bear out, nested, interleaved and in another order included.
TEST(RandomSpace, EvennessIsThatOfTheOwnedElements) {
  std::map<std::string, int64_t> seen;
  for (size_t i = 0; i < 2 * covering_points().size(); ++i) {
    const auto c = random_point_case(Random(6).split(i), covering_points()[i % covering_points().size()]);
    for (size_t input = 0; input < c.program.inputs.size(); ++input) {
      const auto& shape = c.program.inputs[input].shape;
      const auto& target = c.placements[input];
      const auto spec = oracle::spec_of(c, static_cast<int64_t>(input));
      bool uneven = false, empty = false;
      const auto local_dims = oracle::local_shape(spec, 0).size();
      for (size_t d = 0; d < local_dims; ++d)
        for (int64_t p = 0; p < c.mesh.size(); ++p) {
          const auto mine = oracle::local_shape(spec, p)[d];
          uneven = uneven || mine != oracle::local_shape(spec, 0)[d];
          empty = empty || (mine == 0 && shards(target, static_cast<int64_t>(d)));
        }
      const auto text = evenness(target, shape, c.mesh);
      ++seen[text];
      if (text == "-") continue;
      EXPECT_EQ(text, empty ? "empty" : uneven ? "uneven" : "even") << oracle::describe(c);
    }
  }
  for (const auto* text : {"-", "even", "uneven", "empty"}) EXPECT_GE(seen[text], 50) << text;
}

// Would catch: a view, a factory or an initialiser that the ledger reads as something else.
TEST(RandomSpace, PointsAreReadOffTheCalls) {
  const auto only = [](const char* token) {
    const auto points = random_points(oracle::parse_token(token));
    return points.size() == 1 ? points[0] : RandomPoint{};
  };
  const auto point = [](const char* op, const char* dtype, const char* placement, const char* even,
                        const char* regime) {
    return RandomPoint{position(kOperatorAxis, op), position(kDtypeAxis, dtype),
                       position(kPlacementAxis, placement), position(kEvennessAxis, even),
                       position(kRegimeAxis, regime)};
  };
  oracle::Case c;
  c.mesh = DeviceMesh({2, 3});
  c.device = {1, 256};
  const oracle::Target target{{Replicate{}, Shard{1}}, {}};
  Draft view(Random(1), c.mesh, c.device);
  const auto x = view.input({.dtype = at::kFloat, .shape = {40, 7}, .values = {}}, target);
  const auto sliced = view.call("aten::slice.Tensor", {x, int64_t{0}, int64_t{1}, int64_t{39}, int64_t{2}});
  const auto turned = view.call("aten::transpose.int", {sliced, int64_t{0}, int64_t{1}});
  view.call("aten::uniform_", {turned});
  EXPECT_EQ(only(oracle::to_token(std::move(view).finish("random", 1)).c_str()),
            point("aten::uniform_", "f32", "S", "uneven", "1x256: one block, a word a thread"));

  Draft factory(Random(1), c.mesh, c.device);
  factory.make("aten::randint", {int64_t{9}, Shape{300, 3}, at::kShort}, {{Shard{0}, Shard{0}}, {1, 0}});
  EXPECT_EQ(only(oracle::to_token(std::move(factory).finish("random", 1)).c_str()),
            point("aten::randint", "i16", "S*S", "even", "1x256: several words a thread"));
}

// Would catch: an operator whose calls stock refuses though the table says it fills the dtype, and one whose
// calls stock serves though the table says it does not.
TEST(RandomSpace, StockFillsTheDtypesOfTheTableAndNoOthers) {
  oracle::SimulatedSource source;
  for (const auto& op : random_ops())
    for (const auto dtype : random_dtypes()) {
      const bool takes = (op.dtypes & bit_of(dtype)) != 0;
      const RandomPoint point = {position(kOperatorAxis, op.name), position(kDtypeAxis, dtype_name(dtype)), 0,
                                 0, position(kRegimeAxis, "1x256: one block, a word a thread")};
      int64_t served = 0;
      constexpr uint64_t kTries = 12;  // of different arguments
      for (uint64_t i = 0; i < kTries; ++i) try {
          const auto c = random_point_case(Random(7).split(i), point, 0);
          EXPECT_NO_THROW(oracle::validate(c));
          const auto plain = oracle::evaluate_recorded(c, source);
          served += plain.random_after.offset > 0 ? 1 : 0;
        } catch (const std::exception& e) {
          EXPECT_FALSE(takes) << op.name << " of " << dtype_name(dtype) << ": " << e.what();
        }
      EXPECT_EQ(served, takes ? static_cast<int64_t>(kTries) : 0) << op.name << " of " << dtype_name(dtype);
    }
}

}  // namespace
}  // namespace lockstep::generators
