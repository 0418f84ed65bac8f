// SPDX-License-Identifier: Apache-2.0
// Random: the same everywhere, and its splits unrelated.
#include "generators/space/random.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace lockstep::generators {
namespace {

// Would catch: another mixing function or key schedule, which would change every case of every recorded seed.
// Expected values from a second implementation, in Python's integers.
TEST(Random, known_answers) {
  Random random(0);
  EXPECT_EQ(random.next(), 0xa706dd2f4d197e6fu);
  Random of_case = random_of_case(1, "ops", 2);
  EXPECT_EQ(of_case.next(), 0x165be70a796b343u);
}

// Would catch: a split that depends on what was drawn before, so that cases depend on the number of jobs.
TEST(Random, splits_depend_on_the_key_alone) {
  Random fresh(7), used(7);
  for (int i = 0; i < 100; ++i) used.next();
  EXPECT_EQ(fresh.split(3).next(), used.split(3).next());
  EXPECT_EQ(fresh.split("a").split(1).next(), used.split("a").split(1).next());
}

// Would catch: splits that collide or run in step (i and i+1 being shifted copies of one stream).
TEST(Random, splits_are_unrelated) {
  std::set<uint64_t> seen;
  for (uint64_t i = 0; i < 2000; ++i) {
    Random random = Random(5).split(i);
    for (int draw = 0; draw < 5; ++draw) EXPECT_TRUE(seen.insert(random.next()).second) << i;
  }
}

// Would catch: bounds off by one, a weight ignored, a value never drawn.
TEST(Random, draws_cover_their_range_evenly) {
  Random random(3);
  std::map<int64_t, int64_t> counts;
  for (int i = 0; i < 9000; ++i) ++counts[random.between(-4, 4)];
  EXPECT_EQ(counts.size(), 9u);
  for (const auto& [value, count] : counts) {
    EXPECT_GE(value, -4);
    EXPECT_LE(value, 4);
    EXPECT_NEAR(static_cast<double>(count), 1000, 150);
  }
  int64_t heads = 0, heavy = 0;
  for (int i = 0; i < 10000; ++i) heads += random.chance(30);
  for (int i = 0; i < 10000; ++i) heavy += random.weighted<int>({{0, 5}, {3, 1}, {1, 0}});
  EXPECT_NEAR(static_cast<double>(heads), 3000, 200);
  EXPECT_NEAR(static_cast<double>(heavy), 7500, 200);
}

// Would catch: a shuffle that loses or favours an order.
TEST(Random, shuffles_reach_every_order) {
  Random random(11);
  std::map<std::vector<int>, int> counts;
  for (int i = 0; i < 6000; ++i) {
    std::vector<int> list = {0, 1, 2};
    random.shuffle(list);
    ++counts[list];
  }
  EXPECT_EQ(counts.size(), 6u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace lockstep::generators
