// SPDX-License-Identifier: Apache-2.0
// Parallel plans on single modules: what is placed where, what the hooks move, and that values stay those of
// one device.
#include "engine/nn/parallel.h"

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

struct StyleCase {
  const char* name;
  ParallelStyle style;
  const char *weight, *input, *output;  // placements; null: any
};

// Catches: a weight cut along the wrong dimension, a bias that is added once a rank, an output that no hook
// places, a gradient that is not the sum of the ranks' terms. 5 and 7 divide by none of the mesh sizes.
TEST(ParallelLinear, IsThePlainOneInBits) {
  const StyleCase cases[] = {
      {"colwise", colwise_parallel(Replicate{}, std::nullopt, true), "[S0]", "[R]", "[S2]"},
      {"colwise from sequence", colwise_parallel(Replicate{}, Placement(Replicate{}), true), "[S0]", "[S1]",
       "[R]"},
      {"rowwise", rowwise_parallel(), "[S1]", "[S2]", "[R]"},
      {"rowwise to sequence", rowwise_parallel(Shard{1}), "[S1]", "[R]", "[S1]"},
      {"sequence", sequence_parallel(), "[R]", "[R]", nullptr},
  };
  for (const auto& c : cases)
    for (const int64_t ranks : {1, 2, 3, 8}) {
      SCOPED_TRACE(concat(c.name, " on ", ranks));
      const bool bias = std::string_view(c.name).starts_with("col");
      Linear plain(5, 7, bias), parallel(5, 7, bias);
      set_integers(plain);
      set_integers(parallel);
      const auto mesh = init_device_mesh({ranks}, {"tp"});
      parallelize_module(parallel, mesh, "tp", {{"", c.style}});
      EXPECT_EQ(to_string(placements(parallel.parameter("weight"))), c.weight);
      const auto x = integers({2, 4, 5}, 9), w = integers({2, 4, 7}, 10);
      const auto expected = plain(x);
      const auto actual = parallel(distribute_tensor(x, mesh, parse_placements(c.input)));
      if (c.output != nullptr) {
        EXPECT_EQ(to_string(placements(actual)), c.output);
      }
      EXPECT_TRUE(at::equal(expected, full_tensor(actual)));
      (expected * w).sum().backward();
      (actual * distribute_tensor(w, mesh, parse_placements("[R]"))).sum().backward();
      for (const auto& [path, parameter] : parallel.named_parameters()) {
        EXPECT_EQ(placements(parameter), placements(parameter.grad())) << path;
        EXPECT_TRUE(at::equal(plain.parameter(path).grad(), full_tensor(parameter.grad()))) << path;
      }
    }
}

// Catches: a row that two ranks own, an index outside of a shard that reads memory, uneven vocabularies.
TEST(ParallelEmbedding, IsThePlainOneInBits) {
  for (const int64_t ranks : {1, 2, 3, 8}) {
    Embedding plain(9, 4), parallel(9, 4);
    set_integers(plain);
    set_integers(parallel);
    const auto mesh = init_device_mesh({ranks}, {"tp"});
    parallelize_module(parallel, mesh, "tp", {{"", vocabulary_parallel(Shard{1})}});
    const auto indices = at::arange(18).remainder(9).view({2, 9});
    const auto expected = plain(indices);
    const auto actual = parallel(distribute_tensor(indices, mesh, parse_placements("[R]")));
    EXPECT_EQ(to_string(placements(actual)), "[S1]");
    EXPECT_TRUE(at::equal(expected, full_tensor(actual)));
    expected.sum().backward();
    actual.sum().backward();
    EXPECT_TRUE(
        at::equal(plain.parameter("weight").grad(), full_tensor(parallel.parameter("weight").grad())));
  }
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

// Catches: a module that is half distributed, or has hooks, when its plan turns out to be wrong.
TEST(DistributeModule, WhatThrowsHasChangedNothing) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Mlp mlp(4, 6);
  set_integers(mlp);
  for (const auto& wrong :
       std::vector<ParameterPlacement>{{"gate_prj.weight", {Shard{0}}}, {"up_proj.weight", {Shard{5}}}})
    EXPECT_THROW(distribute_module(mlp, mesh, {{"gate*", {Shard{0}}}, wrong}), Error);
  EXPECT_THROW(parallelize_module(mlp, mesh, "tp", {{"gate_proj", colwise_parallel()}, {"dwn_proj", {}}}),
               Error);
  for (const auto& parameter : mlp.parameters()) EXPECT_FALSE(is_dtensor(parameter));
  EXPECT_NO_THROW(mlp(at::ones({2, 4})));
}

// Catches: a plain tensor that a hook would silently take for a replicated one.
TEST(ParallelModule, PlainInputsAreErrors) {
  const auto mesh = init_device_mesh({2}, {"tp"});
  Linear linear(4, 4, false);
  parallelize_module(linear, mesh, "tp", {{"", colwise_parallel()}});
  reset_parameters(linear);
  EXPECT_THROW(linear(at::ones({2, 4})), Error);
}

}  // namespace
}  // namespace lockstep::nn
