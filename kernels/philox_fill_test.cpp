// SPDX-License-Identifier: Apache-2.0
// A run of a launch is the same elements whether drawn alone or as part of the whole.
#include "kernels/philox_fill.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

// The words themselves, so that a misplaced block, lane or thread cannot hide behind rounding.
struct WordValue {
  using Value = uint32_t;
  static constexpr int kLanes = 4;
  uint32_t value(const PhiloxBlock& block, int lane) const { return block[static_cast<size_t>(lane)]; }
};

const PhiloxLaunch kLaunch{77, 5, 256};

std::vector<uint32_t> expected_grid_stride(int64_t n) {
  std::vector<uint32_t> out(static_cast<size_t>(n));
  for (int64_t thread = 0; thread < kLaunch.threads; ++thread)
    for (int64_t draw = 0; draw * 4 * kLaunch.threads < n; ++draw)
      for (int64_t lane = 0; lane < 4; ++lane) {
        const int64_t j = thread + kLaunch.threads * (4 * draw + lane);
        if (j < n)
          out[static_cast<size_t>(j)] =
              philox(kLaunch.seed, static_cast<uint64_t>(thread),
                     kLaunch.counter + static_cast<uint64_t>(draw))[static_cast<size_t>(lane)];
      }
  return out;
}

// Thread by thread as the stock vectorised kernel runs: vectors at a distance of `threads`, fresh blocks for
// each.
std::vector<uint32_t> expected_vectorised(int64_t n, int64_t width) {
  std::vector<uint32_t> out(static_cast<size_t>(n));
  for (int64_t thread = 0; thread < kLaunch.threads; ++thread) {
    uint64_t counter = kLaunch.counter;
    for (int64_t vector = thread; vector * width < n; vector += kLaunch.threads)
      for (int64_t i = 0; i < width; i += 4) {
        const PhiloxBlock block = philox(kLaunch.seed, static_cast<uint64_t>(thread), counter++);
        for (int64_t lane = 0; lane < std::min<int64_t>(width, 4); ++lane)
          out[static_cast<size_t>(vector * width + i + lane)] = block[static_cast<size_t>(lane)];
      }
  }
  return out;
}

// Runs of every interesting start and length, written two apart.
template <class Fill>
void check_runs(const std::vector<uint32_t>& whole, const Fill& fill) {
  const int64_t n = static_cast<int64_t>(whole.size());
  for (int64_t first : {0, 1, 3, 255, 256, 257, 700, 1023, 1024, 1500, 2047})
    for (int64_t count : {1, 2, 5, 255, 256, 257, 512, 1000, 1024, 1100, 2100}) {
      if (first + count > n) continue;
      std::vector<uint32_t> out(static_cast<size_t>(2 * count), 0xdeadbeef);
      fill(PhiloxRun<uint32_t>{first, first + count, out.data(), 2});
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[static_cast<size_t>(2 * i)], whole[static_cast<size_t>(first + i)])
            << first << "+" << i;
        ASSERT_EQ(out[static_cast<size_t>(2 * i + 1)], 0xdeadbeef) << "wrote between";
      }
    }
}

// Catches: a lane taken for a row, the draw not advanced, a partial draw at either end of a run.
TEST(FillGridStride, AnyRunIsASliceOfTheWhole) {
  check_runs(expected_grid_stride(3300),
             [](const PhiloxRun<uint32_t>& run) { fill_grid_stride(kLaunch, WordValue{}, run); });
}

// Catches: a launch that forgets which thread is its first.
TEST(FillGridStride, ThreadsCountFromTheFirstSubsequence) {
  PhiloxLaunch launch = kLaunch;
  launch.subsequence = 1000;
  uint32_t out[2];
  fill_grid_stride(launch, WordValue{}, PhiloxRun<uint32_t>{300, 302, out, 1});
  EXPECT_EQ(out[1], philox(kLaunch.seed, 1000 + 301 - 256, kLaunch.counter)[1]);
}

// Catches: words 2 and 3 used at width 2, the two blocks of width 8 exchanged or interleaved over threads.
TEST(FillVectorised, AnyRunIsASliceOfTheWhole) {
  for (int64_t width : {2, 4, 8})
    check_runs(expected_vectorised(5200, width),
               [&](const PhiloxRun<uint32_t>& run) { fill_vectorised(kLaunch, width, WordValue{}, run); });
}

}  // namespace
}  // namespace lockstep
