// SPDX-License-Identifier: Apache-2.0
// The GPU's kernel body, run on the host thread by thread: its words must be those that the CPU's fill
// writes.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

#include "kernels/device_write.h"
#include "kernels/testing_images.h"

namespace lockstep {
namespace {

template <class G>
void write_all(const std::vector<DeviceBox>& boxes, const G& values, typename G::Value* out) {
  for (const DeviceBox& box : boxes)
    for (int64_t item = 0; item < box.items; ++item) write_item(box, item, values, out);
}

// Every item of every box once, on drawn images. Catches: an item that writes beside its row, a lane or draw
// miscounted at an end, a row or launch left out, values of another lane of the pair.
TEST(DeviceWorkProperty, WritesWhatTheCpuWrites) {
  EXPECT_TRUE(rc::check("words", [] {
    const Drawn drawn = any_image();
    const PhiloxSweep plan = any_plan(drawn.numel);
    log(drawn, plan);
    const bool two = plan.width == 1 && *rc::gen::arbitrary<bool>();
    const int64_t poison = 0x7171717171717171;
    std::vector<int64_t> out(static_cast<size_t>(drawn.memory), poison), expected = out;
    RC_ASSERT(fill(any_words(two), plan, drawn.image, expected.data()));
    const auto boxes = device_boxes(plan, drawn.image, two ? 2 : 4);
    if (two)
      write_all(boxes, IntegerValue<int64_t, 2>(0, 0), out.data());
    else
      write_all(boxes, IntegerValue<int64_t, 4>(0, 0), out.data());
    RC_ASSERT(out == expected);
  }));
}

// How the shards of weights are enumerated. Catches: a choice that computes blocks again for nothing, or that
// visits threads of which nothing is wanted.
TEST(DeviceWork, BlocksAreSharedWhereThatPays) {
  const auto mode = [](int64_t rows, int64_t columns, StreamPiece r, StreamPiece c) {
    const PhiloxSweep plan{1, {{0, rows * columns, 132 * 2048, 0, 0}}, 1};
    const StreamBox box{{{{c}, 1, 1}, {{r}, columns, c.length}}, 0};
    const auto boxes = device_boxes(plan, {box}, 4);
    return boxes.at(0).mode;
  };
  EXPECT_EQ(mode(4096, 4096, {0, 4096, 0}, {512, 512, 0}), DeviceMode::kRows);
  EXPECT_EQ(mode(4096, 14336, {0, 4096, 0}, {512, 512, 0}), DeviceMode::kElements);
  EXPECT_EQ(mode(4096, 4096, {64, 64, 0}, {0, 4096, 0}), DeviceMode::kElements);
  const PhiloxSweep plan{1, {{0, 4096 * 4096, 132 * 2048, 0, 0}}, 1};
  EXPECT_EQ(device_boxes(plan, {{{{{{5, 4096 * 2048, 0}}, 1, 1}}, 0}}, 4).at(0).mode, DeviceMode::kInterval);
}

// Catches: a multiplier or shift that is off by one for some divisor.
TEST(Divider, IsDivision) {
  for (const int64_t d :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{256}, int64_t{270336}, int64_t{1} << 30,
        (int64_t{1} << 31) - 1, (int64_t{1} << 31) + 5, int64_t{1} << 40}) {
    const Divider divider(d);
    for (const int64_t q : {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{1000}, int64_t{99999}})
      for (const int64_t n : {q * d - 1, q * d, q * d + 1, q * d + d - 1, (int64_t{1} << 31) - 1,
                              (int64_t{1} << 31), (int64_t{1} << 45) + q})
        ASSERT_EQ(divider.quotient(std::max<int64_t>(n, 0)), std::max<int64_t>(n, 0) / d) << n << " / " << d;
  }
}

}  // namespace
}  // namespace lockstep
