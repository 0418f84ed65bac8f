// SPDX-License-Identifier: Apache-2.0
#include "oracle/judge/choices.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep::oracle {
namespace {

// Would catch: a way that is tried twice, or not at all, where a choice leads to others.
TEST(Choices, TakeEachWayOnce) {
  Choices choices;
  std::string ways;
  do {
    ways += ways.empty() ? "" : " ";
    ways += choices.next() ? "1" : choices.next() ? "01" : "00";
    if (ways.back() == '1') ways += choices.next() ? "1" : "0";
  } while (choices.go_on());
  EXPECT_EQ(ways, "00 010 011 10 11");
  Choices none;
  EXPECT_FALSE(none.go_on());
}

}  // namespace
}  // namespace lockstep::oracle
