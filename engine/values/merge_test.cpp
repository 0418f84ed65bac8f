// SPDX-License-Identifier: Apache-2.0
// What ranks of different processes did is one timeline, where they did the same.
#include "engine/values/merge.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

HostedTimeline of(int64_t position, double number, int64_t tensors) {
  TimelineEntry entry;
  entry.op = "aten::mul.Scalar";
  entry.args = {c10::IValue(), c10::IValue(number)};
  entry.tensors_per_arg = {tensors, -1};
  return {{position}, {entry}};
}

// Catches: ranks that called an op with other numbers, or other lists of tensors, taken for ranks of one
// program.
TEST(Merge, RanksThatDidOtherThingsAreNamed) {
  EXPECT_EQ(merge({of(0, 2.0, 1), of(1, 2.0, 1)}).size(), 1u);
  for (const auto& other : {of(1, 3.0, 1), of(1, 2.0, 2)}) try {
      merge({of(0, 2.0, 1), other});
      ADD_FAILURE() << "merged";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("with other arguments"), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace lockstep
