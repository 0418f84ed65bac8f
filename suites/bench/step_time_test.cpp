// SPDX-License-Identifier: Apache-2.0
// What is fitted, on samples that were made up: no clock is read.
#include "suites/bench/step_time.h"

#include <gtest/gtest.h>

namespace lockstep::suites {
namespace {

std::vector<StepSample> samples(const StepTime& time) {
  std::vector<StepSample> all;
  for (const double ranks : {4, 8})
    for (const double tokens : {64, 256}) {
      const StepWork work{1e6 * (ranks - 1), 3e5 * ranks * tokens};
      all.push_back({static_cast<int64_t>(ranks), static_cast<int64_t>(tokens), work, time.seconds(work)});
    }
  return all;
}

// Catches: a part of the time that is taken for another.
TEST(StepTime, FindsWhatItsSamplesAreMadeOf) {
  const auto found = fit(samples({7e-3, 3e-10, 5e-11}));
  EXPECT_NEAR(found.fixed, 7e-3, 1e-9);
  EXPECT_NEAR(found.per_byte, 3e-10, 1e-16);
  EXPECT_NEAR(found.per_element, 5e-11, 1e-17);
}

// Catches: bytes that give time back, which a prediction of many ranks would take for less than nothing.
TEST(StepTime, NothingTakesLessThanNoTime) {
  const auto found = fit(samples({9e-3, -1e-10, 5e-11}));
  EXPECT_EQ(found.per_byte, 0);
  EXPECT_GT(found.fixed, 0);
  EXPECT_GT(found.per_element, 0);
}

// Two ranks, one of which has most of a tensor. Catches: work of all ranks that is told of one, or of the
// rank that sends the least; a backward pass that is forgotten.
TEST(StepTime, WorkIsOfTheBusiestRankOrOfAll) {
  const std::vector<fsdp::StepGroup> groups{{{{60, 1}}}};
  const auto plan = plan_step(groups, {.shards = 2});
  EXPECT_EQ(elements_of(groups, 10), 3 * 60 * 10);
  EXPECT_EQ(work_of_rank(plan, 5).bytes, 2 * 32 * 4 + 32 * 4);
  EXPECT_EQ(work_of_all(plan, 5).bytes, 2 * 2 * 32 * 4 + 60 * 4);
  EXPECT_EQ(work_of_rank(plan, 5).elements, 5);
}

}  // namespace
}  // namespace lockstep::suites
