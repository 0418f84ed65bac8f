// SPDX-License-Identifier: Apache-2.0
// RandomScope and the C++ frontend: initialisers, modules, dropout layers of torch::nn.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "oracle/random/literal_source.h"

namespace lockstep {
namespace {

struct RecordingSource : oracle::LiteralSource {
  void fill(const RandomCall& call, const at::Tensor& out, const DeviceModel&, RandomState& state) override {
    calls.push_back(call);
    out.fill_(call.kind == RandomKind::kDropoutMask ? 1 : 0.25);
    state.offset += 4;
  }
  std::vector<RandomCall> calls;
};

// Would catch: a module whose initialiser draws from libtorch's generator, or a fan computed wrongly on the
// way.
TEST(RandomInit, ModulesAreInitialisedFromTheSource) {
  RecordingSource source;
  RandomScope scope(source);
  torch::nn::Linear linear(4, 3);
  torch::nn::Embedding embedding(5, 2);
  torch::nn::Conv2d convolution(1, 2, 3);
  ASSERT_EQ(source.calls.size(), 5U);
  EXPECT_EQ(source.calls[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(source.calls[0].kind, RandomKind::kUniform);
  EXPECT_FLOAT_EQ(static_cast<float>(source.calls[0].b), 0.5F);  // 1 / sqrt(fan_in)
  EXPECT_EQ(source.calls[2].kind, RandomKind::kNormal);
  EXPECT_TRUE(linear->weight.requires_grad() && linear->weight.is_leaf());
  EXPECT_EQ(linear->weight[2][3].item<float>(), 0.25F);
}

// Would catch: an initialiser of torch::nn::init that bypasses the scope.
TEST(RandomInit, InitialisersDrawFromTheSource) {
  RecordingSource source;
  RandomScope scope(source);
  const auto w = torch::empty({4, 6});
  torch::nn::init::kaiming_uniform_(w);
  torch::nn::init::kaiming_normal_(w);
  torch::nn::init::xavier_uniform_(w);
  torch::nn::init::xavier_normal_(w);
  torch::nn::init::uniform_(w);
  torch::nn::init::normal_(w);
  EXPECT_EQ(source.calls.size(), 6U);
  torch::rand({2}, torch::requires_grad());
  torch::randn({2});
  EXPECT_EQ(source.calls.size(), 8U);
}

// Would catch: nn::Dropout that draws in evaluation, or whose gradient does not reach the input.
TEST(RandomInit, DropoutLayersDrawInTrainingOnly) {
  RecordingSource source;
  RandomScope scope(source);
  torch::nn::Dropout dropout(0.5);
  const auto x = torch::ones({2, 2}, torch::requires_grad());
  dropout(x).sum().backward();
  EXPECT_EQ(x.grad().sum().item<float>(), 8.0F);
  ASSERT_EQ(source.calls.size(), 1U);
  EXPECT_EQ(source.calls[0].kind, RandomKind::kDropoutMask);
  dropout->eval();
  dropout(x);
  EXPECT_EQ(source.calls.size(), 1U);
  torch::nn::Dropout in_place(torch::nn::DropoutOptions(0.5).inplace(true));
  in_place(torch::ones({2}));  // stock CUDA decomposes dropout_ into bernoulli_(1 - p)
  ASSERT_EQ(source.calls.size(), 2U);
  EXPECT_EQ(source.calls[1].kind, RandomKind::kBernoulli);
}

}  // namespace
}  // namespace lockstep
