// SPDX-License-Identifier: Apache-2.0
#include "engine/fsdp/held_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep::fsdp {
namespace {

// Catches: a rank that holds nothing and is said to hold something; what is held twice counted twice; what is
// given back still counted; a peak that is not the next one's beginning.
TEST(HeldMemory, IsWhatIsAliveAtOnce) {
  HeldMemory memory;
  EXPECT_EQ(memory.take_peak_bytes(), PerRank<int64_t>());
  auto some = at::zeros({4}), none = at::zeros({0});
  memory.note({some, none});
  memory.note({some.view({2, 2}), none});
  EXPECT_EQ(memory.take_peak_bytes(), (PerRank<int64_t>{16, 0}));
  EXPECT_EQ(memory.take_peak_bytes(), (PerRank<int64_t>{16, 0}));
  {
    auto more = at::zeros({8});
    memory.note({more, none});
  }
  some.reset();
  EXPECT_EQ(memory.take_peak_bytes(), (PerRank<int64_t>{48, 0}));
  EXPECT_EQ(memory.take_peak_bytes(), (PerRank<int64_t>{0, 0}));
}

}  // namespace
}  // namespace lockstep::fsdp
