// SPDX-License-Identifier: Apache-2.0
#include "engine/stream/random_call.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"

namespace lockstep {
namespace {

// Catches: a device's text that does not come back, a device without a block of threads.
TEST(DeviceModelTest, TextForm) {
  EXPECT_EQ(to_string(parse_device_model("132x2048")), "132x2048");
  for (const auto* text : {"", "132", "0x2048", "1x255", "1x256x1"})
    EXPECT_THROW(parse_device_model(text), Error);
}

}  // namespace
}  // namespace lockstep
