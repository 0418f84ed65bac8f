// SPDX-License-Identifier: Apache-2.0
// What is moved is the same tensor elsewhere: elements, sizes and strides, in memory of its own.
#include "oracle/ownership/in_host.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace lockstep::oracle {
namespace {

// Catches: strides made dense, an address that is aligned where it was not, an element that stands twice
// written twice otherwise, and a result that is a view, which autograd lets nobody write to.
TEST(InHostTest, WhatIsMovedLiesAsItLay) {
  const auto x = at::arange(60, at::kFloat).view({3, 4, 5});
  const at::Tensor forms[] = {x,
                              x.transpose(0, 2),
                              x.select(1, 2),
                              x.slice(2, 1, 5, 2),
                              x.select(0, 1).unsqueeze(0).expand({2, 4, 5}),
                              x.narrow(0, 1, 0),
                              x.narrow(0, 1, 0).narrow(1, 0, 1).narrow(2, 0, 1),  // no extent, by its strides
                              x.select(0, 2).select(0, 3).select(0, 4),
                              x.to(at::kBool)};
  for (const auto& form : forms) {
    const auto there = moved(form, at::kCPU);
    EXPECT_TRUE(there.equal(form));
    EXPECT_EQ(there.strides(), form.strides());
    EXPECT_EQ(there.scalar_type(), form.scalar_type());
    EXPECT_FALSE(there.is_alias_of(form));
    EXPECT_FALSE(there.is_view());
    const auto past = [](const at::Tensor& t) { return t.storage_offset() * t.element_size() % 16; };
    EXPECT_TRUE(form.numel() == 0 || past(there) == past(form));
  }
}

// Catches: a copy where nothing has to move, whose storage the oracle knows values by.
TEST(InHostTest, WhatIsThereStays) {
  const auto x = at::ones({2});
  EXPECT_TRUE(in_host(x).is_same(x));
  EXPECT_TRUE(on_mesh(DeviceMesh({2}), x).is_same(x));
  EXPECT_FALSE(in_host(at::Tensor()).defined());
}

}  // namespace
}  // namespace lockstep::oracle
