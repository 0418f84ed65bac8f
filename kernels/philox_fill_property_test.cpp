// SPDX-License-Identifier: Apache-2.0
// The laws of philox_fill.h on drawn images and plans.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <utility>

#include "kernels/testing_images.h"

namespace lockstep {
namespace {

// Whether every path writes the words of the image's elements, each at its place, and nothing else.
bool writes_the_words(const PhiloxSweep& plan, const StreamImage& image, int64_t memory, bool two) {
  const int64_t poison = 0x7171717171717171;
  std::vector<int64_t> out(static_cast<size_t>(memory), poison), expected = out;
  for (const auto& [offset, j] : elements_of(image)) {
    const auto bytes = value_bytes(any_words(two), block_lane(plan, j, two ? 2 : 4));
    std::memcpy(&expected[static_cast<size_t>(offset)], bytes.data(), bytes.size());
  }
  for (const Simd simd : every_simd()) {
    std::fill(out.begin(), out.end(), poison);
    if (!fill(any_words(two), plan, image, out.data(), simd) || out != expected) return false;
  }
  return true;
}

// Catches: a lane, draw or thread miscounted at any end; a piece or a launch left out; writes beside the
// image; blocks that several runs share given to the wrong one.
TEST(PhiloxFillProperty, EachElementIsWrittenOnceWithItsWords) {
  EXPECT_TRUE(rc::check("words", [] {
    const Drawn drawn = any_image();
    const PhiloxSweep plan = any_plan(drawn.numel);
    log(drawn, plan);
    const bool two = plan.width == 1 && *rc::gen::arbitrary<bool>();
    RC_ASSERT(writes_the_words(plan, drawn.image, drawn.memory, two));
  }));
}

// Rows of 1 to 10 elements, of 16 (lanes fall together) or of 37 (they do not), in memory one after the
// other, spread out, apart, and column by column. Catches: columns of short rows exchanged with rows, or put
// beside their place; rows joined that do not follow each other; a carry into the upper half of a subsequence
// lost.
TEST(PhiloxFill, ShortRowsAreWrittenOnceWithTheirWords) {
  const int64_t rows = 150;
  for (int64_t width = 1; width <= 10; ++width)
    for (const auto& [stride, row] : std::initializer_list<std::pair<int64_t, int64_t>>{
             {1, width}, {2, 2 * width}, {1, width + 3}, {rows, 1}})
      for (const int64_t columns : {16, 37})
        for (const int64_t threads : {256, 4096})
          for (const bool two : {false, true}) {
            const PhiloxSweep plan{7, {{0, rows * columns, threads, 5, 0xffffff80}}, 1};
            const StreamImage image{{{{{{3, width, 0}}, 1, stride}, {{{0, rows, 0}}, columns, row}}, 4}};
            const int64_t memory = 4 + width * stride + rows * row;
            EXPECT_TRUE(writes_the_words(plan, image, memory, two))
                << width << " of " << columns << ", " << threads << " threads, strides " << stride << " and "
                << row;
          }
}

// Catches: blocks counted once for each lane, or left out, in any way that a sweep takes.
TEST(PhiloxFillProperty, DistinctBlocksAreCounted) {
  EXPECT_TRUE(rc::check("blocks", [] {
    Drawn drawn = any_image();
    drawn.image.resize(std::min<size_t>(drawn.image.size(), 1));
    const PhiloxSweep plan = any_plan(drawn.numel);
    log(drawn, plan);
    std::set<PhiloxBlock> blocks;
    for (const auto& [offset, j] : elements_of(drawn.image)) blocks.insert(block_lane(plan, j, 4).block);
    const auto counted = static_cast<size_t>(distinct_blocks(plan, drawn.image, 4));
    if (plan.width == 1 && std::none_of(plan.launches.begin(), plan.launches.end(),
                                        [](const PhiloxLaunch& l) { return l.threads == 1; }))
      RC_ASSERT(counted == blocks.size());
    else  // a vector that runs in different rows share may occur for each of them
      RC_ASSERT(counted >= blocks.size());
  }));
}

}  // namespace
}  // namespace lockstep
