// SPDX-License-Identifier: Apache-2.0
#include "suites/experts/mixing.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "oracle/reference/mixture.h"

namespace lockstep::suites {
namespace {

// Catches: an option that the text form loses or reads otherwise, a kind of case that never comes.
TEST(MixingTest, CasesComeBackFromTheirTokens) {
  std::set<std::string> kinds;
  for (int64_t index = 0; index < 300; ++index) {
    const auto c = case_of(any_mixing(3, index));
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    const auto m = mixing_of(c);
    EXPECT_EQ(case_of(m), c);
    kinds.insert(concat("route ", m.route));
    if (m.along < 0) continue;
    const auto ranks = m.mesh.size(m.along);
    if (ranks > m.experts) kinds.insert("a rank without experts");
    if (m.experts % ranks != 0) kinds.insert("experts cut unevenly");
    if (is_replicate(m.cut[as_size(m.along)])) kinds.insert("tokens on every rank");
    if (m.mesh.ndim() > 1 && !is_replicate(m.cut[0]) && m.along > 0) kinds.insert("several blocks");
    if (m.tokens < m.mesh.size()) kinds.insert("a rank without tokens");
  }
  EXPECT_EQ(kinds.size(), 9) << testing::PrintToString(kinds);
}

// Catches: a smaller case that is none, one that leads back to where it came from.
TEST(MixingTest, SimplerOnesAreCasesAndEnd) {
  for (int64_t index = 0; index < 40; ++index) {
    auto c = case_of(any_mixing(5, index));
    for (int64_t left = 300;; --left) {
      ASSERT_GT(left, 0) << oracle::to_token(c);
      const auto simpler = simpler_mixings(c);
      if (simpler.empty()) break;
      for (const auto& one : simpler) EXPECT_NO_THROW(mixing_of(one)) << oracle::to_token(one);
      c = simpler.front();
    }
  }
}

// Catches: a tie that goes to the higher number, a score that is taken twice.
TEST(MixingTest, TheReferenceTakesTheFirstOfEqualScores) {
  const auto scores = at::tensor({1.0f, 3.0f, 3.0f, 2.0f, 5.0f, 5.0f, 5.0f, 5.0f}).view({2, 4});
  EXPECT_TRUE(oracle::best_of(scores, 3).equal(at::tensor({1, 2, 3, 0, 1, 2}, at::kLong).view({2, 3})));
}

// Catches: routes that are not what they are called.
TEST(MixingTest, RoutesAreWhatTheySay) {
  Mixing m;
  m.tokens = 20;
  m.experts = 4;
  m.hidden = 5;
  const auto best = [&](int64_t route) {
    m.route = route;
    return oracle::best_of(m.x().mm(m.weight(0).t()), 1).flatten();
  };
  EXPECT_GT(std::get<0>(at::_unique(best(0))).numel(), 1);
  EXPECT_TRUE(best(1).eq(0).all().item<bool>());
  EXPECT_TRUE(best(2).remainder(2).eq(0).all().item<bool>());
  EXPECT_TRUE(best(3).eq(3).all().item<bool>());
}

// Catches: a token that is taken for another, an error that does not say what is wrong.
TEST(MixingTest, WhatIsWrongIsSaid) {
  const auto says = [](const std::map<std::string, std::string>& options, const char* what) {
    oracle::Case c;
    c.suite = "experts";
    c.mesh = DeviceMesh({2, 2});
    c.options = options;
    try {
      mixing_of(c);
      ADD_FAILURE() << "takes it: " << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says({{"colour", "1"}},
       "there are: along, cut, dtype, experts, hidden, inner, route, sequence, tokens, top_k");
  says({{"top_k", "3"}}, "fewer experts");
  says({{"cut", "S0"}}, "a cut for each mesh dimension");
  says({{"cut", "S1.R"}}, "R or S0");
  says({{"along", "2"}}, "no mesh dimension 2");
  says({{"along", "0"}, {"cut", "S0.S0"}}, "the last that cuts tokens");
  says({{"cut", "S0.S0"}, {"tokens", "6"}}, "do not divide");
  says({{"dtype", "i64"}}, "floating");
}

}  // namespace
}  // namespace lockstep::suites
