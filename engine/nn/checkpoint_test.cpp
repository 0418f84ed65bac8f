// SPDX-License-Identifier: Apache-2.0
// Activation recompute on DTensors and plain tensors: gradients, draws, and what it refuses.
#include "engine/nn/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

using Tensors = std::vector<at::Tensor>;

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { manual_seed(3); }
  MeshInWorld mesh_ = init_device_mesh({2, 2}, {"dp", "tp"});
  at::Tensor x_ = distribute_tensor(ramp({6, 4}), mesh_, parse_placements("[S0,R]")).requires_grad_();
  at::Tensor w_ = distribute_tensor(ramp({4, 4}), mesh_, parse_placements("[R,S1]")).requires_grad_();
  int runs_ = 0;

  Tensors block(const Tensors& of) {
    ++runs_;
    return {std::get<0>(at::native_dropout(at::mm(of[0], of[1]), 0.5, true))};
  }
  Tensors gradients(const at::Tensor& y) { return torch::autograd::grad({y}, {x_, w_}, {at::ones_like(y)}); }
};

// Catches: a block that keeps its history, draws other numbers the second time, or leaves the generator
// elsewhere.
TEST_F(CheckpointTest, GivesTheBlocksOwnGradientsAndDraws) {
  const auto expected = gradients(block({x_, w_})[0]);
  const auto after = generator().state;
  manual_seed(3);
  runs_ = 0;
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_})[0];
  EXPECT_EQ(runs_, 1);
  const auto got = gradients(y);
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(generator().state, after);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(spec(got[i]), spec(expected[i]));
    EXPECT_TRUE(full_tensor(got[i]).equal(full_tensor(expected[i]))) << i;
  }
}

// Catches: draws that are restored though nobody asks for it.
TEST_F(CheckpointTest, DrawsAnewWhereAsked) {
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_}, {false})[0];
  const auto between = generator().state;
  gradients(y);
  EXPECT_GT(generator().state.offset, between.offset);
}

// Catches: a parameter that silently gets no gradient; a second derivative that is silently zero.
TEST_F(CheckpointTest, SaysWhatItCannotDifferentiate) {
  const auto said = [](const auto& run) {
    try {
      run();
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto outside = checkpoint([&](const Tensors& of) { return block({of[0], w_}); }, {x_})[0];
  EXPECT_NE(said([&] { outside.sum().backward(); }).find("shape [4, 4] that requires a gradient"),
            std::string::npos);
  const auto y = checkpoint([&](const Tensors& of) { return block(of); }, {x_, w_})[0];
  const auto twice = [&] { torch::autograd::grad({y.sum()}, {x_}, {}, true, /*create_graph=*/true); };
  EXPECT_NE(said(twice).find("no history of their own"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
