// SPDX-License-Identifier: Apache-2.0
// Gradients of fully_shard against one device that adds up the ranks' batches in the order that is declared,
// over passes, ranks and replicas, in the dtypes of the policy: bit by bit.
#include <span>

#include "engine/fsdp/testing.h"

namespace lockstep {
namespace {

using Gradients = std::vector<at::Tensor>;  // by parameter

Gradients gradients_of(nn::Module& plain, const at::Tensor& x) {
  loss_of(plain.call({x})).backward();
  Gradients gradients;
  for (auto& parameter : plain.parameters())
    gradients.push_back(std::exchange(parameter.mutable_grad(), at::Tensor()));
  return gradients;
}

// One after the other.
Gradients sum(std::span<const Gradients> terms) {
  Gradients sum = terms[0];
  for (const auto& term : terms.subspan(1))
    for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i] + term[i];
  return sum;
}

// What ranks hold, added up along the last mesh dimension.
std::vector<Gradients> rows_of(const std::vector<Gradients>& ranks, size_t shards) {
  std::vector<Gradients> rows;
  for (size_t r = 0; r < ranks.size(); r += shards) rows.push_back(sum(std::span(ranks).subspan(r, shards)));
  return rows;
}

// Rows, added up along the mesh dimension before, and divided once.
Gradients folded(const std::vector<Gradients>& rows, size_t ranks) {
  Gradients result = sum(rows);
  for (auto& gradient : result) gradient = gradient / static_cast<double>(ranks);
  return result;
}

void add_to(std::vector<Gradients>& sums, const std::vector<Gradients>& terms) {
  if (sums.empty()) return static_cast<void>(sums = terms);
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = sum(std::vector{sums[i], terms[i]});
}

// What a pass but the last leaves to it: nothing, to be reduced, to be added up over replicas.
enum class Left { kNothing, kAll, kReplicas };

// One device that takes the ranks' batches one after the other, and adds up as is declared: a pass with sync
// what its ranks give, in the order of the mesh; passes without sync wait for the last, on each rank by
// itself, and those without all-reduce, where there are replicas, on each of these. Catches: a fold in
// another order, over another mesh dimension first, a division before it, or one for each rank, and passes
// that are reduced before they are added up, or added up over replicas before that.
TEST(Accumulation, IsOneDeviceThatAddsUpTheRanksBatches) {
  const std::vector<std::vector<int64_t>> meshes{{2}, {3}, {4}, {5}, {8}, {2, 2}, {2, 3}, {3, 2}};
  for (const auto& shape : meshes)
    for (const auto left : {Left::kNothing, Left::kAll, Left::kReplicas}) {
      const auto mesh = init_device_mesh(shape);
      const auto ranks = static_cast<size_t>(mesh.mesh.size()), shards = static_cast<size_t>(shape.back());
      SCOPED_TRACE(concat(shape_text(shape), ", left ", static_cast<int>(left)));
      const bool waits = left == Left::kAll || (left == Left::kReplicas && shape.size() > 1);
      Net net, plain;
      auto root = shard(net, mesh);
      root.set_gradient_divide_factor(static_cast<double>(ranks));
      for (const auto& [path, parameter] : net.named_parameters())
        plain.set_parameter(path, full_tensor(parameter.detach()).clone().requires_grad_());
      std::vector<Gradients> passes, of_rank, of_row;
      for (const uint64_t pass : {0, 1}) {
        root.set_requires_gradient_sync(left != Left::kAll || pass == 1);
        root.set_requires_all_reduce(left != Left::kReplicas || pass == 1);
        const auto x = values({2 * mesh.mesh.size(), 5}, pass);
        loss_of(net(distribute_tensor(x, mesh, Placements(shape.size(), Shard{0})))).backward();
        EXPECT_EQ(net.parameter("first.weight").grad().defined(), !waits || pass == 1);
        std::vector<Gradients> ranks_of_pass;
        for (size_t r = 0; r < ranks; ++r)
          ranks_of_pass.push_back(gradients_of(plain, x.narrow(0, 2 * static_cast<int64_t>(r), 2)));
        const auto rows = rows_of(ranks_of_pass, shards);
        add_to(of_rank, ranks_of_pass);
        add_to(of_row, rows);
        passes.push_back(folded(rows, ranks));
      }
      const auto late = left == Left::kAll ? folded(rows_of(of_rank, shards), ranks) : folded(of_row, ranks);
      const auto expected = waits ? late : sum(passes);
      size_t i = 0;
      for (const auto& [path, parameter] : net.named_parameters())
        EXPECT_TRUE(same(full_tensor(parameter.grad()), expected.at(i++))) << path;
    }
}

// One device again, under a policy: in its dtypes, the ranks' batches one after the other.
std::vector<at::Tensor> accumulate_under(const MixedPrecisionPolicy& policy, const Net& net,
                                         const at::Tensor& x, int64_t ranks) {
  const auto to = [](const at::Tensor& t, std::optional<at::ScalarType> dtype) {
    return dtype ? t.to(*dtype) : t;
  };
  Net plain;
  for (const auto& [path, parameter] : net.named_parameters())
    plain.set_parameter(
        path, to(full_tensor(parameter.detach()), policy.param_dtype).clone().requires_grad_(), true);
  std::vector<at::Tensor> sums(plain.parameters().size());
  for (int64_t r = 0; r < ranks; ++r) {
    const auto output = plain(to(x.narrow(0, 2 * r, 2), policy.param_dtype));
    loss_of(to(output, policy.output_dtype)).backward();
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto term = to(plain.parameters()[i].grad(), policy.reduce_dtype).clone();
      sums[i] = sums[i].defined() ? sums[i] + term : term;
    }
    plain.zero_grad();
  }
  for (auto& sum : sums) sum = (sum / static_cast<double>(ranks)).to(at::kFloat);
  return sums;
}

// Catches: parameters gathered as they are cut, terms added up in the dtype of the computation, a sum cast
// before it is divided, gradients of another dtype than their parameters.
TEST(Accumulation, ComputesAndReducesInDtypesOfThePolicy) {
  const auto bf16 = at::kBFloat16, f16 = at::kHalf, f32 = at::kFloat, f64 = at::kDouble;
  const MixedPrecisionPolicy policies[] = {{.param_dtype = bf16},
                                           {.param_dtype = bf16, .reduce_dtype = f32},
                                           {.param_dtype = bf16, .reduce_dtype = f32, .output_dtype = f32},
                                           {.param_dtype = f64, .reduce_dtype = f32},
                                           {.reduce_dtype = bf16, .output_dtype = f16}};
  for (const int64_t ranks : {1, 3, 4})
    for (const auto& policy : policies) {
      SCOPED_TRACE(concat(ranks, " ranks, policy ", &policy - policies));
      const auto mesh = init_device_mesh({ranks});
      Net net;
      auto of_block = policy;
      of_block.output_dtype.reset();
      for (const auto& block : net.each) fully_shard(*block, mesh, {.mp_policy = of_block});
      auto root = fully_shard(net, mesh, {.mp_policy = policy});
      init(net);
      root.set_gradient_divide_factor(static_cast<double>(ranks));
      const auto x = values({2 * ranks, 5}, 1);
      const auto output = net(distribute_tensor(x, mesh, {Shard{0}}));
      EXPECT_EQ(output.scalar_type(), policy.output_dtype.value_or(policy.param_dtype.value_or(f32)));
      loss_of(output).backward();
      const auto expected = accumulate_under(policy, net, x, ranks);
      size_t i = 0;
      for (const auto& [path, parameter] : net.named_parameters()) {
        const auto& of_one = expected[i++];
        EXPECT_EQ(parameter.scalar_type(), f32);
        EXPECT_EQ(parameter.grad().scalar_type(), f32);
        // In 16 bits rms_norm casts its weight, so that what comes back is cast too, and added up before
        // that.
        if (policy.param_dtype == bf16 && path.ends_with("norm.weight")) continue;
        EXPECT_TRUE(same(full_tensor(parameter.grad()), of_one)) << path;
      }
    }
}

// Catches: a cast that nobody asked for, a policy that cannot be.
TEST(Accumulation, CastsInputsUnlessToldNotTo) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const MixedPrecisionPolicy policy{.param_dtype = at::kBFloat16, .cast_forward_inputs = false};
  for (const auto& block : net.each) fully_shard(*block, mesh, {.mp_policy = policy});
  fully_shard(net, mesh, {.mp_policy = policy});
  init(net);
  EXPECT_THROW(net(batch(mesh, 1)), std::exception);  // f32 by bf16
  EXPECT_EQ(net(batch(mesh, 1).to(at::kBFloat16)).scalar_type(), at::kBFloat16);
  Net other;
  EXPECT_THROW(fully_shard(other, mesh, {.mp_policy = {.reduce_dtype = at::kInt}}), Error);
}

// Catches: terms of passes without sync added up in the dtype in which they come, or lost.
TEST(Accumulation, AddsUpWithoutSyncInTheDtypeOfTheReduction) {
  const auto mesh = init_device_mesh({1});
  Net net;
  const MixedPrecisionPolicy policy{.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
  for (const auto& block : net.each) fully_shard(*block, mesh, {.mp_policy = policy});
  auto root = fully_shard(net, mesh, {.mp_policy = policy});
  init(net);
  const auto x = values({6, 5}, 1);
  for (int64_t pass = 0; pass < 3; ++pass) {
    root.set_requires_gradient_sync(pass == 2);
    loss_of(net(distribute_tensor(x.narrow(0, 2 * pass, 2), mesh, {Replicate{}}))).backward();
  }
  const auto expected = accumulate_under(policy, net, x, 3);  // and divides by 3
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(same(full_tensor(net.parameters()[i].grad() / 3), expected[i])) << i;
}

// Gradients of two passes with sync are added up as they are, cut.
TEST(Accumulation, AddsUpAcrossPasses) {
  const auto mesh = init_device_mesh({3});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (uint64_t pass = 0; pass < 2; ++pass)
    for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, pass))).backward();
  expect_same_parameters(net, reference);
}

// What waits to be added up over replicas. Catches: terms of before a pass that failed in the gradients of
// the next one; a unit that the last pass does not reach, and whose gradients nobody adds up.
TEST(Accumulation, WhatWaitsForReplicasIsHandedOverOrDropped) {
  const auto mesh = init_device_mesh({2, 2});
  Net net, reference;
  auto root = shard(net, mesh);
  shard(reference, mesh);
  root.set_requires_all_reduce(false);
  loss_of(net(batch(mesh, 1))).backward();
  const auto hidden = (*net.each[0])((*net.first)(batch(mesh, 2)));
  const auto output = (*net.each[1])(hidden);
  hidden.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("a hook fails"); });
  EXPECT_THROW(loss_of(output).backward(), std::exception);
  for (auto* model : {&net, &reference}) {
    loss_of((*model)(batch(mesh, 3))).backward();
    root.set_requires_all_reduce(true);
  }
  EXPECT_FALSE(net.each[1]->parameters()[0].grad().defined());
  loss_of((*net.each[0])((*net.first)(batch(mesh, 4)))).backward();
  const auto of_net = net.each[1]->parameters(), of_reference = reference.each[1]->parameters();
  for (size_t i = 0; i < of_net.size(); ++i)
    EXPECT_TRUE(same(full_tensor(of_net[i].grad()), full_tensor(of_reference[i].grad()))) << i;
}

}  // namespace
}  // namespace lockstep
