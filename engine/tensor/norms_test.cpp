// SPDX-License-Identifier: Apache-2.0
// Vector norms of what ranks share: of every order, by what each rank has.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>

#include "engine/ops/rules/table.h"
#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"

namespace lockstep {
namespace {

const Placement kR = Replicate{};
constexpr double kInf = std::numeric_limits<double>::infinity();

class NormsTest : public testing::Test {
 protected:
  const MeshInWorld mesh_ = init_device_mesh({2, 3});
  // Integers: sums of their magnitudes and squares are exact in any order.
  const at::Tensor value_ = ramp({7, 5}).sub(17);

  std::vector<at::Tensor> everywhere() const {
    std::vector<at::Tensor> result;
    for (const auto& a : placement_choices(2))
      for (const auto& b : placement_choices(2)) result.push_back(distribute_tensor(value_, mesh_, {a, b}));
    for (const auto& units : {std::vector<int64_t>{3, 4, 0}, {0, 0, 1}, {1, 5, 1}})
      for (const auto& a : {kR, Placement(Shard{1})})
        result.push_back(distribute_tensor(value_, mesh_, {a, RaggedShard{{0}, units}}));
    return result;
  }
};

// Catches: norms of parts that are added, a root of each part's sum, a rank with nothing that gives a least
// magnitude of zero, magnitudes without abs, keepdim or a dimension that is lost.
TEST_F(NormsTest, OfIntegersAreThoseOfOneDevice) {
  for (const auto& x : everywhere())
    for (const double order : {2.0, 1.0, kInf, -kInf, 0.0}) {
      EXPECT_TRUE(full_tensor(at::linalg_vector_norm(x, order)).equal(at::linalg_vector_norm(value_, order)))
          << spec(x) << order;
      for (const int64_t d : {0, 1, -1})
        for (const bool keepdim : {false, true})
          EXPECT_TRUE(full_tensor(at::linalg_vector_norm(x, order, d, keepdim))
                          .equal(at::linalg_vector_norm(value_, order, d, keepdim)))
              << spec(x) << order << d;
      EXPECT_TRUE(full_tensor(at::norm(x, order)).equal(at::norm(value_, order))) << spec(x) << order;
      EXPECT_TRUE(full_tensor(at::_foreach_norm({x, x}, order)[1]).equal(at::norm(value_, order))) << spec(x);
    }
}

// Catches: the root of another order, squares that are summed in 16 bits.
TEST_F(NormsTest, OfOtherOrdersAndDtypesAreNear) {
  for (const auto& x : everywhere()) {
    for (const double order : {3.0, 0.5, -1.0, 1.5}) {
      const auto wanted = at::linalg_vector_norm(value_, order),
                 got = full_tensor(at::linalg_vector_norm(x, order));
      EXPECT_TRUE(at::allclose(got, wanted, 1e-5, 0)) << spec(x) << order << got << wanted;
    }
    const auto half = at::linalg_vector_norm(x.to(at::kHalf), 2.0);
    EXPECT_EQ(half.scalar_type(), at::kHalf);
    EXPECT_TRUE(full_tensor(half).equal(at::linalg_vector_norm(value_.to(at::kHalf), 2.0))) << spec(x);
  }
}

// Catches: a tensor that is gathered for one number of it, in a list too.
TEST_F(NormsTest, GatherNothing) {
  Timeline timeline;
  for (const auto& x : everywhere()) {
    const TimelineScope log(timeline);
    at::linalg_vector_norm(x, 2.0);
    at::_foreach_norm({x}, kInf);
  }
  ASSERT_FALSE(timeline.empty());
  for (const auto& entry : timeline)
    EXPECT_TRUE(entry.op != "lockstep::redistribute" || entry.inputs[0].spec->numel() == 1 ||
                entry.inputs[0].spec->has_partial())
        << *entry.inputs[0].spec;
}

// One rank has what one device has; of fewer elements than ranks these are fewer bytes than numbers of each
// rank. Catches: a norm that is composed where nobody shares it, and rounds otherwise.
TEST_F(NormsTest, AreTheStockOpWhereNothingIsShared) {
  const auto names = [](const at::Tensor& x) {
    Timeline timeline;
    const TimelineScope log(timeline);
    at::linalg_vector_norm(x, 2.0);
    return timeline.back().op;
  };
  const auto alone = init_device_mesh({1});
  EXPECT_EQ(names(distribute_tensor(value_, alone, {Shard{0}})), "aten::linalg_vector_norm");
  EXPECT_EQ(names(distribute_tensor(ramp({2}), mesh_, {kR, Shard{0}})), "aten::linalg_vector_norm");
  EXPECT_EQ(names(distribute_tensor(value_, mesh_, {kR, Shard{0}})), "aten::sqrt");
}

// Catches: a gradient that is lost, or gathered, by way of the parts.
TEST_F(NormsTest, HaveGradients) {
  const auto gradient = [](at::Tensor leaf) {
    at::linalg_vector_norm(leaf, 2.0).backward();
    return leaf.grad();
  };
  const auto wanted = gradient(value_.clone().requires_grad_());
  for (const auto& x : everywhere())
    EXPECT_TRUE(full_tensor(gradient(parameter(x))).equal(wanted)) << spec(x);
}

// A user's rule for a norm is what runs. Catches: parts that a user's rule does not know of.
TEST_F(NormsTest, FollowARuleOfTheUsers) {
  const auto x = distribute_tensor(value_, mesh_, {kR, Shard{0}});
  const RuleScope scope("aten::linalg_vector_norm", [](const OpCall&) { return Rows{}; });
  Timeline timeline;
  const TimelineScope log(timeline);
  EXPECT_TRUE(full_tensor(at::linalg_vector_norm(x, 2.0)).equal(at::linalg_vector_norm(value_, 2.0)));
  EXPECT_EQ(timeline.at(1).op, "aten::linalg_vector_norm");  // behind the gather
}

}  // namespace
}  // namespace lockstep
