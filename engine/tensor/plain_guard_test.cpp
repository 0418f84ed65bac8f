// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/plain_guard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/random/random.h"
#include "engine/stream/random_source.h"
#include "engine/tensor/dtensor.h"
#include "engine/world/comm.h"

namespace lockstep {
namespace {

// Catches: an op on plain tensors within it that a RandomScope serves, or whose result is a DTensor.
TEST(PlainGuard, OpsGoPastWhatLockstepAdds) {
  const auto drawn = [] {
    at::manual_seed(5);
    return at::rand({4});
  };
  const auto stock = drawn();
  ClosedFormSource source;
  const RandomScope scope(source);
  const c10::impl::IncludeDispatchKeyGuard fake(c10::DispatchKey::Fake);
  const Within<CommPtr> factories(&Context::factories, init_device_mesh({2}).comm);
  EXPECT_TRUE(is_dtensor(at::zeros({4})));
  {
    const PlainGuard guard;
    EXPECT_FALSE(is_dtensor(at::zeros({4})));
    EXPECT_TRUE(drawn().equal(stock));
  }
  EXPECT_TRUE(is_dtensor(at::zeros({4})));
}

}  // namespace
}  // namespace lockstep
