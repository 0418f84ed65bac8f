// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/gates.h"

#include <gtest/gtest.h>

namespace lockstep::suites {
namespace {

// Catches: a verdict that ends with the wrong exit code, or with none.
TEST(Gates, EachVerdictHasItsCode) {
  const auto& program = find_suite("program");
  const auto& faults = find_suite("faults");
  using Codes = std::set<int>;
  for (const auto* pass : {"equal", "explained", "explained_local_kernel", "explained_overflow", "bounded",
                           "expected_exception", "gave_up"})
    EXPECT_EQ(codes_of(program, {{pass, 3}}), Codes{}) << pass;
  for (const auto* difference : {"different", "hung", "crashed"}) {
    EXPECT_EQ(codes_of(program, {{"equal", 9}, {difference, 1}}), Codes{1}) << difference;
    EXPECT_EQ(codes_of(faults, {{difference, 1}}), Codes{8}) << difference;
  }
  EXPECT_EQ(codes_of(program, {{"broken", 1}}), Codes{3});
  EXPECT_EQ(codes_of(program, {{"nondeterministic", 1}}), Codes{6});
  EXPECT_EQ(codes_of(program, {{"nondeterministic", 1}, {"different", 1}}), (Codes{1, 6}));
  EXPECT_EQ(codes_of(program, {{"a word of a later version", 1}}), Codes{3});
  EXPECT_EQ(codes_of(program, {{"different", 0}}), Codes{});
}

// Catches: cases that gave up counted as measured.
TEST(Gates, GivingUpMeasuresNothing) {
  EXPECT_EQ(measured({{"gave_up", 50}, {"broken", 2}}), 0);
  EXPECT_EQ(measured({{"gave_up", 50}, {"equal", 3}, {"different", 1}}), 4);
  EXPECT_EQ(least_of(1), 1);
  EXPECT_EQ(least_of(2), 1);
  EXPECT_EQ(least_of(3), 2);
  EXPECT_EQ(least_of(100), 80);
}

}  // namespace
}  // namespace lockstep::suites
