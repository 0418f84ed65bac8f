// SPDX-License-Identifier: Apache-2.0
// The main of every test that uses libtorch: enters the exact lane, then runs GoogleTest.
#include <gtest/gtest.h>

#include "engine/lane/numerics.h"

int main(int argc, char** argv) {
  lockstep::enter_lane(lockstep::Lane::kExact, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
