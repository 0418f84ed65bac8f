// SPDX-License-Identifier: Apache-2.0
#include "engine/values/shell.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

// Catches: a token that the shell takes apart, or that ends at a quote of its own.
TEST(Shell, QuotesWhatItIsGiven) {
  EXPECT_EQ(shell_quoted("v1:ops;x0=f32[2]"), "'v1:ops;x0=f32[2]'");
  EXPECT_EQ(shell_quoted("it's $HOME"), R"('it'\''s $HOME')");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_word("--mesh=dp:2,tp:4"), "--mesh=dp:2,tp:4");
  EXPECT_EQ(shell_word("hosted ranks"), "'hosted ranks'");
  EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace lockstep
