// SPDX-License-Identifier: Apache-2.0
// What an ActivityLog makes of what it is told.
#include "engine/context/activity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

namespace lockstep {
namespace {

Activity module(const char* path) {
  return {.kind = ActivityKind::kModule, .name = path};
}
Activity op(const char* name) {
  return {.kind = ActivityKind::kOp, .name = name};
}

// Catches: a node that is taken for a call that had ended before, or for the one around the innermost; a
// gradient that is nobody's though a module owns the leaf.
TEST(ActivityLog, ANodeBelongsToTheInnermostCallThatMadeIt) {
  ActivityLog log;
  const auto x = at::ones({2}).requires_grad_(), foreign = at::ones({2}).requires_grad_();
  log.owns(x.unsafeGetTensorImpl(), "A");
  const auto outer = log.begin(module("A"));
  const auto in_outer = x.mul(foreign);
  const auto empty = log.begin(module("A.nothing"));
  log.end(empty);
  const auto inner = log.begin(module("A.b"));
  const auto in_inner = in_outer.mul(3);
  log.end(inner);
  const auto after_inner = in_inner.mul(4);
  log.end(outer);
  const auto outside = after_inner.mul(5);
  std::vector<std::pair<std::string, std::string>> told;  // where, and whose
  for (const auto& [tensor, where] : {std::pair(x, "x"),
                                      {foreign, "foreign"},
                                      {in_outer, "in A"},
                                      {in_inner, "in A.b"},
                                      {after_inner, "behind A.b"},
                                      {outside, "outside"}})
    tensor.register_hook([&log, &told, where = std::string(where)](const at::Tensor&) {
      const auto number = log.begin(op("aten::mul"));
      log.end(number);
      EXPECT_TRUE(log.all()[number].backward);
      told.emplace_back(where, log.all()[number].module);
    });
  outside.sum().backward();
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (std::vector<std::pair<std::string, std::string>>{{"behind A.b", "A"},
                                                                    {"foreign", ""},
                                                                    {"in A", "A"},
                                                                    {"in A.b", "A.b"},
                                                                    {"outside", ""},
                                                                    {"x", "A"}}));
}

// The law of all(). Catches: a collective that holds ops which it only overlaps, or is held by what ended
// before it.
TEST(ActivityLog, WhatDoesNotEndWithinOverlaps) {
  ActivityLog log;
  const Activity gather{.kind = ActivityKind::kCollective, .name = "all_gather"};
  const auto first = log.begin(op("first"));
  const auto within = log.begin(gather);
  log.end(within);
  const auto beyond = log.begin(gather);
  log.end(first);
  const auto second = log.begin(op("second"));
  log.end(second);
  log.end(beyond);
  const auto& all = log.all();
  EXPECT_EQ(all[within].within, static_cast<int64_t>(first));
  EXPECT_FALSE(all[within].overlaps);
  EXPECT_TRUE(all[beyond].overlaps);
  EXPECT_EQ(all[second].within, -1);
  EXPECT_LE(all[within].end, all[first].end);
  EXPECT_GE(all[beyond].end, all[second].end);
}

// Catches: activities that nobody asked for; an inner scope whose activities reach the outer one, or that
// leaves none.
TEST(Recording, IsOfTheInnermostScope) {
  const auto outer = std::make_shared<ActivityLog>(), inner = std::make_shared<ActivityLog>();
  const auto act = [] { const Active active([](ActivityLog&) { return op("op"); }); };
  bool asked = false;
  {
    const Active active([&](ActivityLog&) { return asked = true, op("op"); });
  }
  EXPECT_FALSE(asked);
  {
    const Recording of_outer(outer);
    act();
    {
      const Recording of_inner(inner);
      act(), act();
      const Recording nobody(nullptr);
      act();
    }
    act();
  }
  act();
  EXPECT_EQ(outer->all().size(), 2U);
  EXPECT_EQ(inner->all().size(), 2U);
}

}  // namespace
}  // namespace lockstep
