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

}  // namespace
}  // namespace lockstep::generators
