// SPDX-License-Identifier: Apache-2.0
#include "suites/optim/stepping.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

// Catches: an option that the text form loses or reads otherwise, a case that none accepts.
TEST(SteppingTest, CasesComeBackFromTheirTokens) {
  std::set<std::string> kinds;
  for (int64_t index = 0; index < 300; ++index) {
    const auto c = case_of(any_stepping(3, index));
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    const auto s = stepping_of(c);
    EXPECT_EQ(case_of(s), c);
    for (const auto& cut : s.cuts)
      for (const auto& p : cut) kinds.insert(kind(p));
  }
  for (const char* every : {"R", "S", "I", "G"}) EXPECT_TRUE(kinds.contains(every)) << every;
}

// Catches: a smaller case that is none, one that leads back to where it came from.
TEST(SteppingTest, SimplerOnesAreCasesAndEnd) {
  for (int64_t index = 0; index < 40; ++index) {
    auto c = case_of(any_stepping(5, index));
    for (int64_t left = 300;; --left) {
      ASSERT_GT(left, 0) << oracle::to_token(c);
      const auto simpler = simpler_steppings(c);
      if (simpler.empty()) break;
      for (const auto& one : simpler) EXPECT_NO_THROW(stepping_of(one)) << oracle::to_token(one);
      c = simpler.front();
    }
  }
}

// Catches: values that depend on how parameters are cut, steps whose gradients are alike.
TEST(SteppingTest, ValuesAreOfTheSeedAlone) {
  Stepping a, b;
  a.shapes = b.shapes = {{3, 5}, {4}};
  a.skips = b.skips = 1;
  b.mesh = DeviceMesh({2});
  b.cuts = {{Shard{0}}, {Shard{0}}};
  EXPECT_TRUE(a.value(0).equal(b.value(0)));
  EXPECT_TRUE(a.gradient(0, 2).equal(b.gradient(0, 2)));
  EXPECT_FALSE(a.gradient(0, 1).equal(a.gradient(0, 2)));
  EXPECT_FALSE(a.gradient(1, 1).defined());
  EXPECT_TRUE(a.gradient(1, 2).defined());
}

// Catches: a token that is taken for another, an error that does not say what is wrong.
TEST(SteppingTest, WhatIsWrongIsSaid) {
  const auto says = [](const std::map<std::string, std::string>& options, const char* what) {
    oracle::Case c;
    c.suite = "optim";
    c.mesh = DeviceMesh({2});
    c.options = options;
    try {
      stepping_of(c);
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says({{"tiles", "2"}}, "no option 'tiles'");
  says({{"tile", "0"}}, "from 1 to 64, not 0");
  says({{"optimizer", "adam"}}, "there are: adamw-8bit, muon");
  says({{"cuts", "G1-"}}, "is not of the form G2_1_0_3");
  says({{"cuts", "P"}, {"shapes", "2x2"}}, "parameters do not pend");
  says({{"cuts", "G1_1_2"}, {"shapes", "4x2"}}, "must divide 4");
  says({{"optimizer", "muon"}, {"shapes", "4"}}, "Muon steps matrices");
  says({{"shapes", "4-5"}}, "a cut for each parameter");
}

}  // namespace
}  // namespace lockstep::suites
