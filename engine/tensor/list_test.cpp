// SPDX-License-Identifier: Apache-2.0
// Ops on lists of DTensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

// Catches: what the elements of a list share, cut as the last of them is: a rank that has nothing of that one
// would run the others without it, and be silently wrong.
TEST(Lists, WhatElementsShareIsWhole) {
  const auto step = [](at::Tensor a, at::Tensor b, at::Tensor of_a, at::Tensor of_b, at::Tensor scale) {
    at::_fused_sgd_({a, b}, {of_a, of_b}, {}, 0.1, 0.0, 0.01, 0.0, false, false, false, scale, std::nullopt);
    return a;
  };
  const auto mesh = init_device_mesh({2}, {"dp"});
  const auto cut = [&](const at::Tensor& t) { return distribute_tensor(t.clone(), mesh, {Shard{0}}); };
  const auto a = ramp({4}), b = ramp({1}), scale = at::full({1}, 2.0);
  const auto sharded = step(cut(a), cut(b), cut(a), cut(b), distribute_tensor(scale, mesh, {Replicate{}}));
  EXPECT_TRUE(at::equal(full_tensor(sharded), step(a.clone(), b.clone(), a.clone(), b.clone(), scale)));
}

}  // namespace
}  // namespace lockstep
