// SPDX-License-Identifier: Apache-2.0
// Cases of the suite `planner`: their text, what is drawn, what is simpler, and that the law tells right from
// wrong.
#include "suites/fsdp/planning.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/error.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

int64_t size_of(const Planning& p) {
  int64_t size =
      p.options.shards + p.options.alignment + p.options.start_align + static_cast<int64_t>(p.options.order);
  for (const auto& t : p.tensors) size += 1 + t.elements + t.granularity + t.period;
  return size;
}

// Catches: a number that a token loses or takes for another; what is called simpler and is not.
TEST(Planning, TokensArePlanningsAndSimplerOnesAreSmaller) {
  std::set<int64_t> alignments, starts, orders, counts, periods;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto c = planner_case(3, i);
    const auto p = planning_of(c);
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    EXPECT_EQ(case_of(p), c);
    for (const auto& simpler : simpler_planner(c)) ASSERT_LT(size_of(planning_of(simpler)), size_of(p));
    alignments.insert(p.options.alignment);
    starts.insert(p.options.start_align);
    orders.insert(static_cast<int64_t>(p.options.order));
    counts.insert(std::ssize(p.tensors));
    for (const auto& t : p.tensors) periods.insert(t.period);
  }
  EXPECT_EQ(alignments.size(), 5u);
  EXPECT_EQ(starts.size(), 5u);
  EXPECT_EQ(orders.size(), 4u);
  EXPECT_EQ(counts.size(), 6u);
  EXPECT_GT(periods.size(), 20u);
}

// Catches: a law that holds whatever is planned. (The faults of the suite are planted by `faults`.)
TEST(Planning, TheLawHolds) {
  LockstepEngine engine;
  for (int64_t i = 0; i < 500; ++i) {
    const auto c = planner_case(4, i);
    EXPECT_TRUE(std::holds_alternative<Passed>(judge_planner(c, engine))) << oracle::to_token(c);
  }
}

// Catches: a text that is taken for another.
TEST(Planning, SaysWhatIsWrong) {
  const auto refuses = [](const char* name, const char* text) {
    auto c = planner_case(3, 0);
    c.options[name] = text;
    EXPECT_THROW(planning_of(c), Error) << name << " " << text;
  };
  for (const char* text : {"", "8", "8x0", "-1x2", "8x2-", "8x2x0", "8x2x3x4", "5000x1"})
    refuses("tensors", text);
  refuses("align", "0");
  refuses("start", "65");
  refuses("order", "size");
  refuses("ranks", "3");
  auto c = planner_case(3, 0);
  c.mesh = DeviceMesh({2, 2});
  EXPECT_THROW(planning_of(c), Error);
}

}  // namespace
}  // namespace lockstep::suites
