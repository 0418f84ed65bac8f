// SPDX-License-Identifier: Apache-2.0
// What distribute_module places where, and that values stay those of one device.
#include "engine/nn/distribute.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/nn/blocks.h"
#include "engine/random/random.h"
#include "engine/stream/random_source.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

// Values for which every sum is exact: small integers.
at::Tensor integers(at::IntArrayRef shape, uint64_t seed) {
  return at::randint(-3, 4, shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

void set_integers(Module& module) {
  uint64_t seed = 0;
  for (const auto& [path, value] : module.named_parameters())
    module.set_parameter(path, integers(value.sizes(), ++seed).requires_grad_());
}

// Catches: first values drawn per rank, or in another order than on one device; a distribution that copies
// values that were already there wrongly.
TEST(DistributeModule, FirstValuesAreThoseOfOneDevice) {
  const auto mesh = init_device_mesh({2, 3});
  Mlp plain(5, 7), before(5, 7), after(5, 7);
  {
    ClosedFormSource source;
    const RandomScope scope(source);
    manual_seed(3);
    reset_parameters(plain);
    manual_seed(3);
    reset_parameters(before);
  }
  const std::vector<ParameterPlacement> table = {{"*_proj.weight", parse_placements("[S0,S1]")}};
  distribute_module(before, mesh, table);
  distribute_module(after, mesh, table);
  manual_seed(3);
  reset_parameters(after);
  for (const auto& [path, value] : plain.named_parameters()) {
    EXPECT_TRUE(at::equal(value, full_tensor(before.parameter(path)))) << path;
    EXPECT_TRUE(at::equal(value, full_tensor(after.parameter(path)))) << path;
  }
}

// Catches: the first pattern not winning, what no pattern names left plain, unused patterns passing in
// silence.
TEST(DistributeModule, PatternsAreTriedInOrder) {
  const auto mesh = init_device_mesh({2});
  Mlp mlp(4, 6);
  const ParameterPlacement down{"down_proj.weight", parse_placements("[S1]")};
  const ParameterPlacement gate{"gate*", parse_placements("[S0]")};
  distribute_module(mlp, mesh, {down, gate});
  EXPECT_EQ(to_string(placements(mlp.parameter("down_proj.weight"))), "[S1]");
  EXPECT_EQ(to_string(placements(mlp.parameter("gate_proj.weight"))), "[S0]");
  EXPECT_EQ(to_string(placements(mlp.parameter("up_proj.weight"))), "[R]");
  Mlp other(4, 6);
  const ParameterPlacement all{"*", parse_placements("[R]")};
  EXPECT_THROW(distribute_module(other, mesh, {all, gate}), Error);
}

// Catches: a module that is half distributed when its table turns out to be wrong.
TEST(DistributeModule, WhatThrowsHasChangedNothing) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Mlp mlp(4, 6);
  set_integers(mlp);
  for (const auto& wrong :
       std::vector<ParameterPlacement>{{"gate_prj.weight", {Shard{0}}}, {"up_proj.weight", {Shard{5}}}})
    EXPECT_THROW(distribute_module(mlp, mesh, {{"gate*", {Shard{0}}}, wrong}), Error);
  for (const auto& parameter : mlp.parameters()) EXPECT_FALSE(is_dtensor(parameter));
  EXPECT_NO_THROW(mlp(at::ones({2, 4})));
}

// Catches: an end that is not called, or in the wrong order, a gradient that does not go through it.
TEST(DistributeModule, EndsAreWhatTheFunctionsMakeOfThem) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Mlp plain(4, 6), placed(4, 6);
  set_integers(plain);
  set_integers(placed);
  distribute_module(placed, mesh, {{"down_proj.weight", {Shard{1}}}, {"*", {Shard{0}}}},
                    {[](Module&, Tensors& inputs, const MeshInWorld& on) {
                       inputs.at(0) = from_local({inputs[0], inputs[0]}, on, {Replicate{}});
                     },
                     [](Module&, const at::Tensor& output, const MeshInWorld& on) {
                       EXPECT_EQ(to_string(device_mesh(output).mesh), to_string(on.mesh));
                       return full_tensor(output);
                     }});
  const auto x = integers({2, 4}, 7), own = x.clone().requires_grad_(), its = x.clone().requires_grad_();
  const auto expected = plain(own), actual = placed(its);
  EXPECT_FALSE(is_dtensor(actual));
  EXPECT_TRUE(at::allclose(expected, actual));
  expected.sum().backward();
  actual.sum().backward();
  // Both ranks' copies are of it.
  EXPECT_TRUE(at::allclose(2 * own.grad(), its.grad()));
  EXPECT_EQ(to_string(placed.hooks()),
            "(the model) | forward pre | input_fn\n(the model) | forward | output_fn\n");
}

}  // namespace
}  // namespace lockstep::nn
