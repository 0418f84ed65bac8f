// SPDX-License-Identifier: Apache-2.0
// The way out of DTensors and back, with gradients: what a plain program computes amid a distributed one.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{}, kP = Partial{};

class LocalTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({2, 3});
  const at::Tensor value_ = ramp({6, 4}), weight_ = ramp({4, 5}) * 0.25, scale_ = ramp({6, 5}) + 0.5;

  std::vector<Placements> everywhere() const {
    std::vector<Placements> result;
    for (const auto& a : placement_choices(2))
      for (const auto& b : placement_choices(2)) result.push_back({a, b});
    for (const auto& a : {kR, kP, Placement(Shard{1})}) result.push_back({a, RaggedShard{{0}, {0, 1, 2}}});
    return result;
  }
  at::Tensor leaf(const Placements& p) const { return parameter(distribute_tensor(value_, mesh_, p)); }
};

// The gradient through full_tensor is the plain program's. Catches: a gradient that reaches the first rank
// only, a copy of it that other ranks lack, locals that share their memory.
TEST_F(LocalTest, TheGradientOfTheFullTensorIsThatOfOneDevice) {
  const auto x = value_.clone().requires_grad_();
  (at::mm(x, weight_) * scale_).sum().backward();
  for (const auto& p : everywhere()) {
    const auto outside = leaf(p);
    (at::mm(full_tensor(outside), weight_) * scale_).sum().backward();
    EXPECT_TRUE(full_tensor(outside.grad()).equal(x.grad())) << to_string(p);

    const auto amid = leaf(p), w = distribute_tensor(weight_, mesh_, {Shard{1}, kR});
    (full_tensor(at::mm(amid, w)) * scale_).sum().backward();
    EXPECT_TRUE(full_tensor(amid.grad()).equal(x.grad())) << to_string(p);
    amid.grad().add_(1);
    EXPECT_TRUE(full_tensor(amid.grad()).equal(x.grad() + 1)) << to_string(p);
  }
}

// Each rank's copy used alike is the value used once. Catches: replicas' gradients added up, or lost.
TEST_F(LocalTest, LocalComputationOnEveryRankIsThatOfOneDevice) {
  for (const auto& p : everywhere()) {
    const auto x = leaf(p);
    auto locals = to_local(x);
    for (auto& local : locals) local = local * 3;
    const auto y = from_local(locals, mesh_, placements(x), value_.sizes().vec());
    full_tensor(y * y).sum().backward();
    EXPECT_TRUE(full_tensor(x.grad()).equal(value_ * 18)) << to_string(p);
  }
}

// Where no gradient arrives none goes back; where some local tensors have one the others have zeros. Catches:
// zeros of a value that nothing was computed from.
TEST_F(LocalTest, NoGradientGoesBackWhereNoneArrives) {
  const auto other = value_.clone().requires_grad_();
  for (const auto& p : everywhere()) {
    const auto x = leaf(p);
    auto tensors = to_local(x);
    tensors.push_back(full_tensor(x));
    tensors.push_back(other);
    const auto scaled = at::_foreach_mul(tensors, 3);
    const auto none = torch::autograd::grad({scaled.back().sum()}, {x, other}, {}, true, false, true);
    EXPECT_FALSE(none[0].defined()) << to_string(p);
  }
  const auto cut = leaf({Shard{0}, Shard{1}});
  to_local(cut)[0].sum().backward();
  EXPECT_EQ(full_tensor(cut.grad()).sum().item<float>(), static_cast<float>(local_tensors(cut)[0].numel()));
}

// Catches: gradients of replicas that differ, which every later step would carry on.
TEST_F(LocalTest, GradientsOfReplicasThatDifferAreAnError) {
  for (const auto& p : {Placements{kR, kR}, Placements{Shard{0}, kR}, Placements{kP, Shard{1}}}) {
    const auto x = leaf(p);
    const auto loss = to_local(x)[0].sum();
    EXPECT_TRUE(says(error_of([&] { loss.backward(); }),
                     {"[to_local]", "replicated along", "rank", "full_tensor", "grad_placements"}))
        << to_string(p) << error_of([&] { loss.backward(); });
  }
}

// A DTensor of local tensors that lie in any order, or not densely, is theirs in values and says how it lies.
// Catches: a stride that is not the locals', on which views and copies then rely.
TEST_F(LocalTest, FromLocalLiesAsTheLocalsDo) {
  const auto dense = at::arange(12).reshape({3, 4}), row = at::arange(3);
  for (const auto& local : {dense, dense.t(), at::arange(24).reshape({3, 8}).narrow(1, 2, 4),
                            row.expand({4, 3}), at::arange(24).reshape({2, 3, 4}).permute({2, 0, 1})}) {
    const PerRank<at::Tensor> locals(6, local);
    const auto x = from_local(locals, mesh_, {Shard{0}, kR});
    const auto whole = at::cat({local, local});
    EXPECT_TRUE(full_tensor(x).equal(whole)) << local.strides();
    EXPECT_TRUE(full_tensor(x.reshape({-1})).equal(whole.reshape({-1}))) << local.strides();
    EXPECT_TRUE(full_tensor(x.contiguous().view({-1})).equal(whole.reshape({-1}))) << local.strides();
    EXPECT_TRUE(full_tensor(x.flatten()).equal(whole.flatten())) << local.strides();
    EXPECT_EQ(x.is_contiguous(), local_tensors(x)[0].is_contiguous()) << local.strides();
    EXPECT_EQ(local_tensors(x)[0].is_alias_of(local), local.is_non_overlapping_and_dense());
  }
  const auto x = from_local(PerRank<at::Tensor>(6, dense.t()), mesh_, {Shard{0}, kR});
  EXPECT_EQ(x.strides(), at::IntArrayRef({1, 8}));  // as torch's DTensor
}

// Each rank adds up its part: every term of the sum has its gradient, whose own gradient is the sum over all.
// Catches: gradients of gradients of one rank alone, silently where all ranks' are equal.
TEST_F(LocalTest, WhatPendsHasGradientsOfGradients) {
  const auto twice = [](const at::Tensor& x, const auto& sum, const at::Tensor& weight) {
    const auto y = sum(x);
    const auto first = torch::autograd::grad({y * y * y}, {x}, {}, true, true)[0];
    return torch::autograd::grad({(first * weight).sum()}, {x})[0];
  };
  for (const auto& weight : {at::ones({6, 4}), value_}) {
    const auto plain = twice(
        value_.clone().requires_grad_(), [](auto& x) { return x.sum(); }, weight);
    for (const auto& p : {Placements{Shard{0}, kR}, Placements{Shard{0}, Shard{1}}}) {
      const auto sum = [&](const at::Tensor& x) {
        auto locals = to_local(x);
        for (auto& local : locals) local = local.sum();
        auto pends = p;
        for (auto& placement : pends)
          if (is_shard(placement)) placement = kP;
        return redistribute(from_local(locals, mesh_, pends, std::vector<int64_t>{}), {kR, kR});
      };
      const auto cut = twice(leaf(p), sum, distribute_tensor(weight, mesh_, p));
      EXPECT_TRUE(full_tensor(cut).equal(plain)) << to_string(p);
    }
  }
}

// Catches: terms that count once for each rank, or only the first rank's.
TEST_F(LocalTest, GradientsMayBeTermsOfASum) {
  const auto x = leaf({kR, Shard{1}});
  const auto locals = to_local(x, {kP, Shard{1}});
  at::Tensor loss = at::zeros({});
  for (size_t i = 0; i < locals.size(); ++i)
    loss = loss + locals[i].sum() * static_cast<double>(i < 3 ? 1 : 10);
  loss.backward();
  EXPECT_EQ(placements(x.grad()), placements(x));
  EXPECT_TRUE(full_tensor(x.grad()).equal(at::full({6, 4}, 11.0f)));
  for (const auto& wrong : {Placements{kR}, Placements{kR, Shard{0}}, Placements{kP, kP}})
    EXPECT_TRUE(says(error_of([&] { to_local(x, wrong); }), {"[to_local]", "grad_placements"}))
        << to_string(wrong);
}

}  // namespace
}  // namespace lockstep
