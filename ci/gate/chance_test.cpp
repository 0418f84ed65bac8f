// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/chance.h"

#include <gtest/gtest.h>

#include <bit>

namespace lockstep::gate {
namespace {

// The law, by every choice of `hits` of the draws: those of which the candidate has as many or more. The
// first candidate.of bits are the candidate's draws.
double by_every_choice(Rate candidate, Rate baseline) {
  const int64_t all = candidate.of + baseline.of, hits = candidate.hits + baseline.hits;
  const uint64_t mine = (uint64_t{1} << candidate.of) - 1;
  int64_t choices = 0, as_many = 0;
  for (uint64_t choice = 0; choice < uint64_t{1} << all; ++choice) {
    if (std::popcount(choice) != hits) continue;
    ++choices;
    as_many += std::popcount(choice & mine) >= candidate.hits;
  }
  return static_cast<double>(as_many) / static_cast<double>(choices);
}

// Catches: a tail that begins one too late or too early, a side taken for the other.
TEST(Chance, IsThatOfEveryChoice) {
  for (int64_t c_of = 1; c_of <= 6; ++c_of)
    for (int64_t b_of = 1; b_of <= 7; ++b_of)
      for (int64_t c = 0; c <= c_of; ++c)
        for (int64_t b = 0; b <= b_of; ++b)
          EXPECT_NEAR(chance_of_more({c, c_of}, {b, b_of}), by_every_choice({c, c_of}, {b, b_of}), 1e-12)
              << c << " of " << c_of << ", " << b << " of " << b_of;
}

// Catches: an overflow on the way, a sum that rounds above one, a side without draws that alarms.
TEST(Chance, HoldsForManyAndForNone) {
  EXPECT_NEAR(chance_of_more({1, 1'000'000}, {1, 1'000'000}), 0.75, 1e-6);
  EXPECT_LT(chance_of_more({30, 30}, {0, 30}), 1e-17);
  EXPECT_LT(chance_of_more({1000, 1000}, {0, 1'000'000}), 1e-300);
  EXPECT_EQ(chance_of_more({0, 5000}, {100, 5000}), 1);
  EXPECT_EQ(chance_of_more({5, 5}, {0, 0}), 1);
  EXPECT_EQ(chance_of_more({0, 0}, {5, 5}), 1);
}

}  // namespace
}  // namespace lockstep::gate
