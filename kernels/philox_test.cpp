// SPDX-License-Identifier: Apache-2.0
// Catches: a wrong multiplier, round count, key schedule, or order of counter and subsequence words.
#include "kernels/philox.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Philox, KnownAnswersOfCurand) {
  EXPECT_EQ(philox(0, 0, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(42, 0, 0), (PhiloxBlock{0x9ceaf053, 0x77f5493b, 0x12bf50ad, 0x5742b3d7}));
  EXPECT_EQ(philox(1234, 0, 0), (PhiloxBlock{0x2090b348, 0xda7cf0ab, 0x4401906f, 0xcbca470e}));
}

// Random123's published vectors use all 192 bits: a high word swapped or dropped shows here and nowhere
// above.
TEST(Philox, KnownAnswersOfRandom123) {
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(philox(ones, ones, ones), (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

}  // namespace
}  // namespace lockstep
