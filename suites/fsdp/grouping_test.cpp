// SPDX-License-Identifier: Apache-2.0
// Cases of the suite `dbuffer`: their text, what is drawn, what is simpler, and that the law tells right from
// wrong.
#include "suites/fsdp/grouping.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/values/error.h"
#include "suites/core/suite.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/faults/fault.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

// Catches: an option that a token loses or takes for another; a feature that no case has any more.
TEST(Grouping, TokensAreGroupings) {
  std::map<std::string, std::set<std::string>> drawn;
  for (int64_t i = 0; i < 1000; ++i) {
    const auto c = dbuffer_case(3, i);
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    EXPECT_EQ(case_of(grouping_of(c)), c);
    for (const auto& [name, value] : c.options) drawn[name].insert(value);
    drawn["mesh"].insert(std::to_string(c.mesh.ndim()));
  }
  for (const auto& [name, least] :
       {std::pair("among", 2), std::pair("cut", 5), std::pair("dim", 2), std::pair("dtype", 3),
        std::pair("gathered", 3), std::pair("order", 3), std::pair("pends", 7), std::pair("rows", 4),
        std::pair("shapes", 500), std::pair("mesh", 3)})
    EXPECT_GE(std::ssize(drawn[name]), least) << name;
}

// Each step of the shrinker leads to another case of the suite, and there is no way back.
TEST(Grouping, SimplerOnesAreCasesAndEnd) {
  for (int64_t i = 0; i < 20; ++i) {
    auto c = dbuffer_case(1, i);
    int steps = 0;
    for (auto next = simpler_dbuffer(c); !next.empty(); next = simpler_dbuffer(c)) {
      for (const auto& s : next) EXPECT_NO_THROW(check_dbuffer(s)) << oracle::to_token(s);
      c = next[static_cast<size_t>(i) % next.size()];
      ASSERT_LT(++steps, 400);
    }
    EXPECT_EQ(grouping_of(c).mesh.size(), 1);
    EXPECT_EQ(grouping_of(c).shapes.size(), 1u);
  }
}

// Catches: a law that no mistake breaks, or that the clean engine breaks.
TEST(Grouping, TheLawTellsRightFromWrong) {
  LockstepEngine clean;
  for (int64_t i = 0; i < 200; ++i) {
    const auto c = dbuffer_case(11, i);
    EXPECT_TRUE(std::holds_alternative<Passed>(judge_dbuffer(c, clean))) << oracle::to_token(c);
  }
  for (const auto& fault : faults()) {
    const bool plans = std::string_view(fault.suite) == "planner";
    if (!plans && std::string_view(fault.suite) != "dbuffer") continue;
    const auto engine = fault.plant();
    bool found = false;
    for (int64_t i = 0; i < fault.cases && !found; ++i) {
      const auto c = plans ? planner_case(11, i) : dbuffer_case(11, i);
      found = fault.touches(c) &&
              !std::holds_alternative<Passed>(plans ? judge_planner(c, *engine) : judge_dbuffer(c, *engine));
    }
    EXPECT_TRUE(found) << fault.name;
  }
}

// Catches: a text that is taken for another.
TEST(Grouping, SaysWhatIsWrong) {
  const auto refuses = [](const char* name, const char* text) {
    oracle::Case c;
    c.suite = "dbuffer";
    c.mesh = DeviceMesh({2, 4});
    c.options[name] = text;
    EXPECT_THROW(grouping_of(c), Error) << name << " " << text;
  };
  for (const char* text : {"", "4-", "65", "1x1x1x1", "-1"}) refuses("shapes", text);
  for (const char* text : {"R", "S0.R", "R.P", "R.S2", "R.S-1"}) refuses("cut", text);
  for (const char* text : {"1", "2", "9"}) refuses("among", text);
  refuses("dim", "2");
  refuses("dtype", "i64");
  refuses("order", "size");
  refuses("ranks", "3");
}

}  // namespace
}  // namespace lockstep::suites
