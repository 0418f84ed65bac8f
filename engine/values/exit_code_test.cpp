// SPDX-License-Identifier: Apache-2.0
#include "engine/values/exit_code.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Catches: two codes swapped in the order of precedence, or one that is missing from it.
TEST(ExitCode, EarlierOfTwoWins) {
  const int order[] = {2, 7, 3, 8, 5, 1, 6, 4, 77, 0};
  for (size_t i = 0; i < std::size(order); ++i)
    for (size_t j = i; j < std::size(order); ++j) EXPECT_EQ(winning({order[i], order[j]}), order[i]);
  EXPECT_EQ(winning({}), 0);
}

// Catches: a summary that names the loser first, or leaves out what nobody knows.
TEST(ExitCode, AreListedWinnersFirst) {
  EXPECT_EQ(in_winning_order({0, 1, 3, 42, 7, 99}), (std::vector<int>{7, 3, 1, 0, 42, 99}));
  EXPECT_EQ(in_winning_order({}), std::vector<int>());
}

// Catches: a code nobody knows passing as success.
TEST(ExitCode, AnUnknownCodeIsAHarnessError) {
  EXPECT_EQ(winning({42}), 3);
}

}  // namespace
}  // namespace lockstep
