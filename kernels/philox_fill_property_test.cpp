// SPDX-License-Identifier: Apache-2.0
// The laws of philox_fill.h on drawn images and plans.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

#include "kernels/drawn_images.h"

namespace lockstep {
namespace {

// Catches: a lane, draw or thread miscounted at any end; a piece or a launch left out; writes beside the
// image; blocks that several runs share given to the wrong one.
TEST(PhiloxFillProperty, EachElementIsWrittenOnceWithItsWords) {
  EXPECT_TRUE(rc::check("words", [] {
    const Drawn drawn = any_image();
    const PhiloxPlan plan = any_plan(drawn.numel);
    log(drawn, plan);
    const bool two = plan.width == 1 && *rc::gen::arbitrary<bool>();
    const int64_t poison = 0x7171717171717171;
    std::vector<int64_t> out(static_cast<size_t>(drawn.memory), poison), expected = out;
    for (const auto& [offset, j] : elements_of(drawn.image)) {
      const auto bytes = value_bytes(any_words(two), block_lane(plan, j, two ? 2 : 4));
      std::memcpy(&expected[static_cast<size_t>(offset)], bytes.data(), bytes.size());
    }
    for (const Simd simd : every_simd()) {
      std::fill(out.begin(), out.end(), poison);
      RC_ASSERT(fill(any_words(two), plan, drawn.image, out.data(), simd));
      RC_ASSERT(out == expected);
    }
  }));
}

// Catches: blocks counted once for each lane, or left out, in any way that a sweep takes.
TEST(PhiloxFillProperty, DistinctBlocksAreCounted) {
  EXPECT_TRUE(rc::check("blocks", [] {
    Drawn drawn = any_image();
    drawn.image.resize(std::min<size_t>(drawn.image.size(), 1));
    const PhiloxPlan plan = any_plan(drawn.numel);
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
