// SPDX-License-Identifier: Apache-2.0
#include "suites/checkpoint/saving.h"

#include <gtest/gtest.h>

#include <set>

#include "engine/values/error.h"
#include "oracle/ownership/compare.h"

namespace lockstep::suites {
namespace {

// Catches: an option that the text form loses or reads otherwise, a case that none accepts, placements,
// dtypes and harms that none has.
TEST(SavingTest, CasesComeBackFromTheirTokens) {
  std::set<std::string> kinds;
  int64_t lists = 0, elsewhere = 0;
  for (int64_t index = 0; index < 1000; ++index) {
    const auto c = case_of(any_saving(3, index));
    EXPECT_EQ(oracle::parse_token(oracle::to_token(c)), c);
    const auto s = saving_of(c);
    EXPECT_EQ(case_of(s), c);
    elsewhere += s.onto.size() < s.mesh.size();
    kinds.insert(concat("harm ", static_cast<int>(s.harm)));
    for (const auto dtype : s.dtypes) kinds.insert(dtype_name(dtype));
    for (const auto* cuts : {&s.from, &s.into})
      for (const auto& cut : *cuts)
        for (const auto& p : cut) {
          kinds.insert(kind(p));
          const auto* ragged = std::get_if<RaggedShard>(&p);
          lists += ragged != nullptr && ragged->lists > 1;
        }
  }
  for (const char* every : {"R", "S", "I", "G", "f32", "bf16", "bool", "i8", "harm 0", "harm 1", "harm 2",
                            "harm 3", "harm 4", "harm 5"})
    EXPECT_TRUE(kinds.contains(every)) << every;
  EXPECT_GT(lists, 10);
  EXPECT_GT(elsewhere, 300);
}

// Catches: a smaller case that is none, one that leads back to where it came from.
TEST(SavingTest, SimplerOnesAreCasesAndEnd) {
  for (int64_t index = 0; index < 40; ++index) {
    auto c = case_of(any_saving(5, index));
    for (int64_t left = 300;; --left) {
      ASSERT_GT(left, 0) << oracle::to_token(c);
      const auto simpler = simpler_savings(c);
      if (simpler.empty()) break;
      for (const auto& one : simpler) EXPECT_NO_THROW(saving_of(one)) << oracle::to_token(one);
      c = simpler.front();
    }
  }
}

// Catches: what is saved and what was there before being alike, bits that depend on how a tensor is cut.
TEST(SavingTest, BitsAreOfSeedAndAgeAlone) {
  Saving a, b;
  a.shapes = b.shapes = {{4, 6}};
  b.mesh = DeviceMesh({2});
  b.from = {{Shard{0}}};
  for (const uint64_t age : {0U, 1U, 2U})
    EXPECT_TRUE(oracle::compare(a.value(0, age), b.value(0, age)).equal());
  EXPECT_FALSE(oracle::compare(a.value(0, 0), a.value(0, 1)).equal());
  EXPECT_FALSE(oracle::compare(a.value(0, 0), a.value(0, 2)).equal());
}

// Catches: a token that is taken for another, an error that does not say what is wrong.
TEST(SavingTest, WhatIsWrongIsSaid) {
  const auto says = [](const std::map<std::string, std::string>& options, const char* what) {
    oracle::Case c;
    c.suite = "checkpoint";
    c.mesh = DeviceMesh({2});
    c.options = options;
    try {
      saving_of(c);
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says({{"folder", "x"}},
       "no option 'folder'; there are: at, dtypes, from, harm, into, older, one_by_one, onto");
  says({{"harm", "rust"}}, "there are: none, byte, cut, longer, gone, exchanged");
  says({{"older", "2"}}, "from 0 to 1, not 2");
  says({{"from", "P"}}, "what is saved does not pend");
  says({{"onto", "3"}, {"into", "R"}}, "at most 16 ranks, and onto as many");
  says({{"shapes", "4-5"}}, "a dtype, a from and an into for each tensor");
  says({{"plain", "2"}}, "plain is at most the number of tensors");
  says({{"from", "G1_1_2l1"}}, "is not of the form G2_1_0_3");
  says({{"shapes", "4x65"}}, "sizes of at most 64");
}

}  // namespace
}  // namespace lockstep::suites
