// SPDX-License-Identifier: Apache-2.0
// Builder: what it appends runs, and what it refuses leaves no trace.
#include "generators/program/builder.h"

#include <gtest/gtest.h>

namespace lockstep::generators {
namespace {

// A call is tried in the grad mode in which it will run, after backward() too. Would catch: a write to the
// only element of a list that chunk returned, which libtorch refuses where the element has a history.
TEST(Builder, refuses_after_backward_what_libtorch_will_refuse) {
  Settings settings;
  settings.mesh = DeviceMesh({2});
  settings.backward = true;
  Builder b(Random(3), settings);
  const auto draw = [&] { return b.fresh({.dtypes = kF32, .shape = Shape{4}}); };
  auto leaf = draw();
  while (!b.requires_grad(leaf)) leaf = draw();  // three of four do
  ASSERT_TRUE(b.call("aten::neg", {leaf}));
  const auto tracked = b.results().front();
  ASSERT_TRUE(b.call("aten::chunk", {tracked, int64_t{1}, int64_t{0}}));
  const auto piece = b.results().front();
  ASSERT_TRUE(b.backward());
  const auto calls = b.calls();
  EXPECT_FALSE(b.call("aten::abs_", {piece}));
  EXPECT_EQ(b.calls(), calls);
  EXPECT_NE(b.refusals().back().find("multiple views"), std::string::npos) << b.refusals().back();
  EXPECT_TRUE(b.call("aten::abs", {piece}));
}

// Would catch: a product in place that is made again with the bound of its first time, so that the integer
// lane leaves the integers which a dtype holds.
TEST(Builder, bounds_what_is_made_again_by_what_has_grown) {
  Settings settings;
  settings.mesh = DeviceMesh({2});
  settings.integer_lane = true;
  Builder b(Random(3), settings);
  const oracle::Values threes{.kind = oracle::ValueKind::kIntegers, .low = 3, .high = 3};
  const auto x = b.fresh({.dtypes = kBF16, .shape = Shape{4}, .values = threes});
  ASSERT_TRUE(b.call("aten::mul_.Scalar", {x, int64_t{3}}, {{9, 0}, {}}));
  const auto first = b.last();
  for (const double bound : {27.0, 81.0, 243.0}) {
    ASSERT_TRUE(b.again(first, first.call.args));
    EXPECT_EQ(b.magnitude(x).bound, bound);
  }
  EXPECT_FALSE(b.again(first, first.call.args));
  EXPECT_EQ(b.refusals().back(), "aten::mul_.Scalar: magnitude");
}

}  // namespace
}  // namespace lockstep::generators
