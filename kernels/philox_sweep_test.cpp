// SPDX-License-Identifier: Apache-2.0
// What sharding costs in Philox blocks, on real shapes and the device with 132 x 2048 threads.
#include "kernels/philox_sweep.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace lockstep {
namespace {

constexpr int64_t kThreads = 132 * 2048;

StreamImage rows_and_columns(int64_t columns, StreamPiece rows, StreamPiece held) {
  if (held.length == columns) return {{{{{{rows.start * columns, rows.length * columns, 0}}, 1, 1}}, 0}};
  return {{{{{held}, 1, 1}, {{rows}, columns, held.length}}, 0}};
}

// Blocks that `ranks` equal shards need together, over those of the whole.
double cost(int64_t rows, int64_t columns, int dim, int64_t ranks) {
  const PhiloxSweep plan{1, {{0, rows * columns, kThreads, 0, 0}}, 1};
  const auto blocks = [&](const StreamImage& image) {
    return static_cast<double>(distinct_blocks(plan, image, 4));
  };
  double sum = 0;
  for (int64_t r = 0; r < ranks; ++r) {
    const int64_t m = (dim == 0 ? rows : columns) / ranks;
    const StreamPiece part{r * m, m, 0};
    sum += blocks(dim == 0 ? rows_and_columns(columns, part, {0, columns, 0})
                           : rows_and_columns(columns, {0, rows, 0}, part));
  }
  return sum / blocks(rows_and_columns(columns, {0, rows, 0}, {0, columns, 0}));
}

// Catches: a sweep that shares fewer blocks than it could, or counts them wrongly.
TEST(DistinctBlocks, OfShardsOfWeights) {
  const double close = 0.005;
  EXPECT_NEAR(cost(4096, 4096, 0, 2), 1.06, close);
  EXPECT_NEAR(cost(4096, 4096, 0, 8), 1.34, close);
  EXPECT_NEAR(cost(4096, 4096, 0, 64), 3.88, close);
  EXPECT_NEAR(cost(4096, 4096, 1, 8), 1.00, close);
  EXPECT_NEAR(cost(4096, 14336, 1, 2), 1.84, close);
  EXPECT_NEAR(cost(4096, 14336, 1, 8), 3.95, close);
  EXPECT_NEAR(cost(14336, 4096, 0, 8), 1.10, close);
  EXPECT_NEAR(cost(14336, 4096, 0, 64), 1.87, close);
  EXPECT_NEAR(cost(4096, 14336, 0, 64), 1.87, close);
  EXPECT_NEAR(cost(32000, 5120, 1, 8), 3.99, close);
  EXPECT_NEAR(cost(1024, 1024, 0, 2), 2.00, close);
  EXPECT_NEAR(cost(1024, 1024, 1, 64), 1.00, close);
}

// 14336x4096 by rows on 64 ranks, the launch and the shards divided by 8192: thread and draw of each element,
// one by one. Catches: a closed form that counts otherwise than this definition.
TEST(DistinctBlocks, AreThoseOfTheElementsOneByOne) {
  constexpr int64_t kScale = 8192, kSmallThreads = kThreads / kScale, kShard = 14336 * 4096 / 64 / kScale;
  const auto counted = [](int64_t first, int64_t last) {
    std::set<std::pair<int64_t, int64_t>> blocks;
    for (int64_t j = first; j < last; ++j) blocks.emplace(j % kSmallThreads, j / kSmallThreads / 4);
    return static_cast<double>(blocks.size());
  };
  double sum = 0;
  for (int64_t r = 0; r < 64; ++r) sum += counted(r * kShard, (r + 1) * kShard);
  EXPECT_DOUBLE_EQ(cost(14336, 4096, 0, 64), sum / counted(0, 64 * kShard));
}

// Blocks that a fill really makes: few where runs are long or lanes fall together, one an element where runs
// are short and lanes apart. Catches: a choice that loses the sharing, or the time to look for it.
TEST(Sweep, MakesFewBlocksOrOneForEachElement) {
  const auto made = [](int64_t rows, int64_t columns, int64_t held) {
    const PhiloxSweep plan{1, {{0, rows * columns, kThreads, 0, 0}}, 1};
    int64_t blocks = 0;
    sweep(plan, rows_and_columns(columns, {0, rows, 0}, {0, held, 0}), 4,
          [&](PhiloxBatch& batch) { blocks += batch.count; });
    return static_cast<double>(blocks) / static_cast<double>(rows * held);
  };
  EXPECT_LT(made(1 << 18, 8, 1), 0.4);     // a row of 8 divides the launch: lanes fall together
  EXPECT_EQ(made(1 << 18, 7, 1), 1.0);     // a row of 7 does not
  EXPECT_EQ(made(1 << 17, 14, 2), 1.0);    // nor does one of 14, though the runs of two rows may meet
  EXPECT_LT(made(4096, 4096, 512), 0.27);  // long runs
  EXPECT_LT(made(1024, 1024, 16), 0.27);   // short ones, few blocks, lanes together
}

}  // namespace
}  // namespace lockstep
