// SPDX-License-Identifier: Apache-2.0
// Means of what ranks share: exact wherever sums are.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/ops/rules/table.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};

class MeansTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({2, 3});
  const at::Tensor value_ =
      ramp({7, 5});  // sums of 7, 5 or 35 integers, by none of which a quotient is exact

  std::vector<at::Tensor> everywhere(const at::Tensor& t) const {
    std::vector<at::Tensor> result;
    for (const auto& a : placement_choices(t.dim()))
      for (const auto& b : placement_choices(t.dim())) result.push_back(distribute_tensor(t, mesh_, {a, b}));
    return result;
  }
};

// Catches: means of shards that are averaged, each of which is rounded already.
TEST_F(MeansTest, OfIntegersAreThoseOfOneDevice) {
  for (const auto dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    const auto value = value_.to(dtype);
    for (const auto& x : everywhere(value)) {
      EXPECT_TRUE(full_tensor(x.mean()).equal(value.mean())) << spec(x);
      for (const int64_t d : {0, 1, -1}) {
        EXPECT_TRUE(full_tensor(x.mean(d)).equal(value.mean(d))) << spec(x) << d;
        EXPECT_TRUE(full_tensor(x.mean(d, true)).equal(value.mean(d, true))) << spec(x) << d;
      }
      EXPECT_TRUE(
          full_tensor(x.mean(at::IntArrayRef{0, 1}, true)).equal(value.mean(at::IntArrayRef{0, 1}, true)))
          << spec(x);
      EXPECT_TRUE(full_tensor(x.mean(at::IntArrayRef(), false, at::kDouble))
                      .equal(value.mean(at::IntArrayRef(), false, at::kDouble)))
          << spec(x);
    }
  }
}

// Catches: a loss, or its gradient, that is rounded twice where one device rounds once.
TEST_F(MeansTest, LossesAndGradientsToo) {
  const auto target = ramp({7, 5}).flip(0);
  const auto gradient = [&](const at::Tensor& leaf, const at::Tensor& to) {
    const auto loss = at::l1_loss(leaf, to) + at::mse_loss(leaf, to);
    loss.backward();
    return std::pair(loss.detach(), leaf.grad());
  };
  const auto expected = gradient(value_.clone().requires_grad_(), target);
  for (const auto& x : everywhere(value_)) {
    const auto got = gradient(parameter(x), distribute_tensor(target, mesh_, {Shard{0}, kR}));
    EXPECT_TRUE(full_tensor(got.first).equal(expected.first)) << spec(x);
    EXPECT_TRUE(full_tensor(got.second).equal(expected.second)) << spec(x);
  }
}

// Catches: a collective where none is wanted, a quotient that waits where nobody asked for that.
TEST_F(MeansTest, PendWhereTheyAreAskedTo) {
  const auto x = distribute_tensor(ramp({8, 6}), mesh_, {Shard{0}, Shard{1}});
  EXPECT_EQ(placements(x.mean()), (Placements{kR, kR}));
  EXPECT_EQ(placements(x.mean(0)), (Placements{kR, Shard{0}}));
  const Placement average = Partial{ReduceOp::kAvg};
  {
    const ExplicitRedistribution forbid;
    EXPECT_EQ(placements(x.mean()), (Placements{average, average}));
  }
  const RuleScope rule("aten::mean", find_op("aten::mean")->rows);
  EXPECT_EQ(placements(x.mean()), (Placements{average, average}));
}

// What stands in the timeline. Catches: sums of more elements than the tensor has; a mean that moves what is
// whole.
TEST_F(MeansTest, MoveTheFewerBytes) {
  const auto ops = [&](const at::Tensor& t, const Placements& p, int64_t dim) {
    const auto x = distribute_tensor(t, mesh_, p);
    Timeline timeline;
    const TimelineScope scope(timeline);
    x.mean(dim);
    std::string text;
    for (const auto& entry : timeline)
      text += entry.op.substr(entry.op.find("::") + 2) + (entry.order.empty() ? "" : "*") + " ";
    return text;
  };
  EXPECT_EQ(ops(ramp({8, 6}), {Shard{0}, kR}, 0), "sum.dim_IntList redistribute* div.Scalar ");
  EXPECT_EQ(ops(ramp({2, 6}), {kR, Shard{0}}, 0), "redistribute sum.dim_IntList div.Scalar ");
  EXPECT_EQ(ops(ramp({8, 6}), {Shard{0}, kR}, 1), "mean.dim ");
}

}  // namespace
}  // namespace lockstep
