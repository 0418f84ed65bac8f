// SPDX-License-Identifier: Apache-2.0
// The table of op templates: every entry exists, can be made, and declares itself truthfully.
#include "generators/ops/ops.h"

#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "engine/values/error.h"
#include "generators/cases/swarm.h"
#include "generators/program/trial.h"
#include "oracle/judge/families.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

// Would catch: a misspelt overload, an entry listed twice, a table that shrank below what the project
// promises.
TEST(Ops, table_is_of_distinct_overloads) {
  std::set<std::string> names;
  for (const auto& op : op_templates()) {
    EXPECT_TRUE(names.insert(op.op).second) << op.op;
    if (oracle::is_own(op.op)) continue;
    EXPECT_NO_THROW(oracle::find_operator(std::string(op.op))) << op.op;
  }
  for (const char* later : {"aten::_fused_adamw_", "lockstep::redistribute", "lockstep::backward"})
    names.insert(later);
  std::cout << names.size() << " overloads are generated\n";
  EXPECT_GE(names.size(), 220u);
}

void expect_makes(std::span<const OpTemplate> templates) {
  for (const auto& op : templates) {
    int64_t made = 0, present = 0;
    constexpr int64_t kTries = 96;
    for (uint64_t i = 0; i < kTries; ++i) {
      Random random = Random(7).split(op.op).split(i);
      auto settings = draw_settings(random, {.integer_lane = 0});
      Builder b(random, settings);
      if (!op.make(b, op)) continue;
      ++made;
      const auto calls = b.finish("ops", 0, {}).program.calls;
      present +=
          std::any_of(calls.begin(), calls.end(), [&](auto& call) { return call.op == op.op; }) ? 1 : 0;
    }
    EXPECT_GE(made, kTries * 3 / 4) << op.op;
    EXPECT_EQ(present, made) << op.op << " must append its own call";
  }
}

// Would catch: a maker whose arguments libtorch refuses, or that fits only lucky operands (a discard in
// disguise).
TEST(Ops, every_template_makes_its_call) {
  expect_makes(op_templates());
}

// Would catch: the same of an op that no suite goes round to.
TEST(Ops, every_template_without_a_rule_makes_its_call) {
  expect_makes(unruled_templates());
}

// Would catch: a template declared in place that is not, or differentiable that cannot reach an input.
TEST(Ops, traits_are_true) {
  for (const auto& op : op_templates()) {
    if (oracle::is_own(op.op)) continue;
    EXPECT_EQ(op.in_place(), oracle::find_operator(std::string(op.op)).writes) << op.op;
    if (!(op.traits & kDiff) || op.op == std::string("aten::detach")) continue;
    int64_t reached = 0;
    for (uint64_t i = 0; i < 30 && reached == 0; ++i) {
      Random random = Random(9).split(op.op).split(i);
      Builder b(random, draw_settings(random, {.integer_lane = 0, .backward = 100}));
      if (op.in_place()) {
        const auto leaf = b.fresh({.dtypes = op.dtypes & kFloats, .min_dims = 1, .least = 1});
        b.call("aten::clone", {leaf}, {}, false);
      }
      reached += op.make(b, op) && b.backward() ? 1 : 0;
    }
    EXPECT_GT(reached, 0) << op.op;
  }
}

// Would catch: an op whose bits may depend on how it is cut, and nobody asked; the suites find it by chance,
// as a difference.
TEST(Ops, the_judge_knows_each) {
  for (const auto& op : op_templates()) {
    if (oracle::is_own(op.op)) continue;
    EXPECT_TRUE(oracle::is_known(oracle::find_operator(op.op)))
        << op.op << " needs a line in oracle/judge/families.cpp: what its bits may be on a slice";
  }
}

}  // namespace
}  // namespace lockstep::generators
