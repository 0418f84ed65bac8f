// SPDX-License-Identifier: Apache-2.0
// Local tensors are on the mesh's device, whatever makes them. On `meta` any that is not is an error of
// libtorch's, or of these tests, on a machine without another device.
#include <gtest/gtest.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

const Replicate kR;

::testing::AssertionResult is_on_meta(const at::Tensor& t) {
  if (!is_dtensor(t)) return ::testing::AssertionFailure() << "a plain tensor";
  for (const auto& local : local_tensors(t))
    if (!local.is_meta())
      return ::testing::AssertionFailure() << spec(t) << " has a local on " << local.device();
  return ::testing::AssertionSuccess();
}

// Catches: an allocation, a factory, a fill or a formula of autograd's that says CPU. (Of ops that libtorch
// has meta kernels for: no embedding, no layer norm, no dropout.)
TEST(DeviceTest, ATrainingStepStaysOnTheMesh) {
  const auto mesh = init_device_mesh(c10::kMeta, {2, 2}, {"dp", "tp"});
  manual_seed(3);
  const auto tokens = randint(0, 16, {4, 6}, mesh, {Shard{0}, kR});
  const auto given = parameter(randn({4, 6, 8}, mesh, {Shard{0}, kR}));
  const auto in = parameter(normal(0, 0.1, {8, 8}, mesh, {Shard{1}, Shard{0}}));
  const auto out = parameter(full({16, 8}, 0.5, mesh, {kR, kR}));
  const auto bias = parameter(zeros({16}, mesh, {kR, kR}));

  auto x = at::linear(given, in).view({4, 6, 2, 4}).transpose(1, 2);
  x = at::matmul(at::softmax(at::matmul(x, x.transpose(2, 3)), -1), x).transpose(1, 2).reshape({24, 8});
  x = at::gelu(x);
  const auto logits = at::linear(x, out, bias);
  const auto loss = at::cross_entropy_loss(logits, tokens.view({24}));
  EXPECT_TRUE(is_on_meta(logits));
  EXPECT_TRUE(is_on_meta(loss));
  loss.backward();
  for (const auto& parameter : {given, in, out, bias}) EXPECT_TRUE(is_on_meta(parameter.grad()));
  EXPECT_EQ(to_string(spec(logits).mesh()), "dp:2,tp:2@meta");
}

// Catches: a random op whose offset depends on what it has filled.
TEST(DeviceTest, TheStreamMovesAsOnTheCpu) {
  std::vector<uint64_t> offsets;
  for (const auto device : {c10::kCPU, c10::kMeta}) {
    const auto mesh = init_device_mesh(device, {3});
    manual_seed(5);
    at::dropout(rand({5, 7}, mesh, {Shard{1}}), 0.5, true).bernoulli_(0.5);
    randperm(11, mesh, {kR});
    offsets.push_back(generator().state.offset);
  }
  EXPECT_EQ(offsets[0], offsets[1]);
}

// Catches: a redistribution that allocates elsewhere.
TEST(DeviceTest, RoutesStayOnTheMesh) {
  const auto mesh = init_device_mesh(c10::kMeta, {2});
  for (const auto& from : placement_choices(2))
    for (const auto& to : placement_choices(2)) {
      const auto x = empty({6, 8}, mesh, {from});
      EXPECT_TRUE(is_on_meta(redistribute(x, {to}))) << from << " to " << to;
    }
}

// Catches: tensors of one device cut onto a mesh of another.
TEST(DeviceTest, DevicesMustAgree) {
  const auto mesh = init_device_mesh(c10::kMeta, {2});
  EXPECT_TRUE(
      says(error_of([&] { distribute_tensor(at::ones({2}), mesh, {kR}); }), {"device cpu", "mesh on meta"}));
  EXPECT_TRUE(
      says(error_of([&] { init_device_mesh(c10::kCUDA, {2}, {}, local_world(2)); }), {"has them on cpu"}));
  EXPECT_TRUE(says(error_of([&] { init_device_mesh(c10::kXPU, {2}); }), {"cpu, cuda and meta"}));
}

}  // namespace
}  // namespace lockstep
