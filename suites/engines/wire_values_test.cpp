// SPDX-License-Identifier: Apache-2.0
// What an op was given besides tensors of the mesh, on its way between processes.
#include "suites/engines/wire_values.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "suites/engines/wire.h"

namespace lockstep::suites::wire {
namespace {

// A plain tensor of one element is a constant of the call. Catches: one that arrives as nothing, in another
// dtype or shape, or that promotes types otherwise.
TEST(WireValues, ConstantsComeBack) {
  const at::Tensor all[] = {at::native::wrapped_scalar_tensor(2.5), at::native::wrapped_scalar_tensor(true),
                            at::full({}, 7, at::kInt), at::full({1, 1}, -0.25, at::kBFloat16),
                            at::full({1}, std::numeric_limits<double>::infinity(), at::kFloat)};
  for (const auto& constant : all) {
    const auto back = read_plain(Json::parse(write_plain(constant).dump()));
    ASSERT_TRUE(back.isTensor()) << constant;
    EXPECT_TRUE(back.toTensor().equal(constant)) << constant;
    EXPECT_EQ(back.toTensor().scalar_type(), constant.scalar_type());
    EXPECT_EQ(back.toTensor().unsafeGetTensorImpl()->is_wrapped_number(),
              constant.unsafeGetTensorImpl()->is_wrapped_number());
  }
  EXPECT_TRUE(write_plain(at::zeros({2})).is_null());
  EXPECT_TRUE(write_plain(at::Tensor()).is_null());
}

// Catches: memory that is asked for by a stranger's word, an error that is not the wire's.
TEST(WireValues, WhatIsNoConstantIsMalformed) {
  for (const char* text : {R"({"constant":1,"dtype":"f32","shape":[1000000000000],"number":false})",
                           R"({"constant":1,"dtype":"f32","shape":[-1,-1],"number":false})",
                           R"({"constant":1,"dtype":"f32","shape":[2],"number":false})",
                           R"({"constant":"x","dtype":"f32","shape":[],"number":false})",
                           R"({"constant":[1],"dtype":"f32","shape":[],"number":false})",
                           R"({"constant":300,"dtype":"u8","shape":[],"number":false})"})
    EXPECT_THROW(read_plain(Json::parse(text)), Malformed) << text;
}

}  // namespace
}  // namespace lockstep::suites::wire
