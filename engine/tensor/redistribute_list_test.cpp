// SPDX-License-Identifier: Apache-2.0
// Redistribution of a list of tensors.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/tensor/testing.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// Counts exchanges.
class Counting : public World {
 public:
  explicit Counting(WorldPtr inner) : World(*inner), inner_(std::move(inner)) {}
  Work exchange(Exchange asked) override {
    ++calls;
    return inner_->exchange(std::move(asked));
  }
  int64_t calls = 0;

 private:
  WorldPtr inner_;
};

// Ways to place a matrix on 2x3.
std::vector<std::pair<Placements, std::vector<int64_t>>> placings() {
  std::vector<std::pair<Placements, std::vector<int64_t>>> all;
  for (const auto& a : placement_choices(2))
    for (const auto& b : placement_choices(2)) all.push_back({{a, b}, {}});
  all.push_back({{Shard{0}, Shard{0}}, {1, 0}});
  all.push_back({{Replicate{}, RaggedShard{{0}, {2, 0, 3}}}, {}});
  all.push_back({{Partial{ReduceOp::kMax}, Shard{1}}, {}});
  return all;
}

class RedistributeList : public testing::Test {
 protected:
  const std::shared_ptr<Counting> world_ = std::make_shared<Counting>(local_world(6));
  const MeshInWorld mesh_ = init_device_mesh({2, 3}, {"dp", "tp"}, world_);

  // A tensor of its own values for each way, so placed.
  std::vector<at::Tensor> placed() const {
    std::vector<at::Tensor> list;
    for (const auto& [p, order] : placings())
      list.push_back(distribute_tensor(ramp({5, 6}) + std::ssize(list), mesh_, p, order));
    return list;
  }
  int64_t calls_of(const std::function<void()>& f) const {
    const auto before = world_->calls;
    f();
    return world_->calls - before;
  }
};

// All ways at once to every way: each tensor has the Spec and on every rank the bits that it has alone.
// Catches: entries that change places, terms of one tensor that are added to another's, parcels of ranks that
// are told apart otherwise by sender and receiver.
TEST_F(RedistributeList, IsEachAlone) {
  const auto list = placed();
  for (const auto& [p, order] : placings()) {
    const auto together = redistribute(list, {p}, {order});
    ASSERT_EQ(together.size(), list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const auto alone = redistribute(list[i], p, order);
      EXPECT_FALSE(together[i].is_same(list[i]));
      ASSERT_EQ(spec(together[i]), spec(alone));
      for (size_t r = 0; r < 6; ++r)
        ASSERT_TRUE(same_bits(local_tensors(together[i])[r], local_tensors(alone)[r]))
            << spec(list[i]) << " -> " << spec(alone) << ", rank " << r;
    }
  }
}

// Tensors of several shapes and dtypes that go the same way share one exchange a step; others have their own.
// Catches: a list that is moved one by one, exchanges of two mesh dimensions that are taken for one.
TEST_F(RedistributeList, IsOneExchangeAWay) {
  const auto cut = [&](std::vector<int64_t> shape, const Placement& dp, const Placement& tp) {
    return distribute_tensor(ramp(std::move(shape)), mesh_, {dp, tp});
  };
  const Placement r = Replicate{}, s = Shard{0}, p = Partial{};
  const std::vector<at::Tensor> rows{cut({4, 3}, s, r), cut({7}, s, r), cut({2, 2, 2}, s, r).to(at::kDouble)};
  const auto across = cut({5}, r, s), term = cut({5}, p, r), terms = cut({4}, p, p), others = cut({6}, p, p);
  const auto calls = [&](const std::vector<at::Tensor>& list, const std::vector<Placements>& to) {
    return calls_of([&] { redistribute(list, to); });
  };
  EXPECT_EQ(calls(rows, {{r, r}}), 1);
  EXPECT_EQ(calls({rows[0], across}, {{r, r}}), 2);
  EXPECT_EQ(calls({rows[0], term, rows[1]}, {{r, r}}), 2);
  // Terms are added along both mesh dimensions, one after the other, of both tensors at once.
  EXPECT_EQ(calls({terms, others}, {{r, r}}), 2);
  // Each to its own: gathered, added up, and what stays is a copy.
  EXPECT_EQ(calls({rows[0], term, rows[1]}, {{r, r}, {r, r}, {s, r}}), 2);
  EXPECT_TRUE(redistribute(std::vector<at::Tensor>(), {{r, r}}).empty());
}

// Gradients are those of each alone, and go back together; what has none goes without. Catches: a gradient of
// another entry, one exchange a gradient, a constant that requires grad because its neighbour does.
TEST_F(RedistributeList, GradientsComeBackTogether) {
  const Placement r = Replicate{}, s = Shard{0}, p = Partial{};
  std::vector<at::Tensor> leaves;
  for (const auto& placements : {Placements{r, r}, {r, r}, {s, r}, {p, r}})
    leaves.push_back(parameter(distribute_tensor(ramp({6, 2}), mesh_, placements)));
  const auto constant = distribute_tensor(ramp({6, 2}), mesh_, {r, r});
  auto list = leaves;
  list.push_back(constant);
  const auto moved = redistribute(list, {{s, r}});
  EXPECT_FALSE(moved[4].requires_grad());
  std::vector<at::Tensor> arriving;
  for (int64_t k = 1; k < 4; ++k) arriving.push_back(distribute_tensor(ramp({6, 2}) * k, mesh_, {s, r}));
  const auto calls = calls_of([&] { torch::autograd::backward({moved[0], moved[1], moved[3]}, arriving); });
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(leaves[2].grad().defined());
  for (const int64_t i : {0, 1, 3}) {
    const auto& grad = leaves[static_cast<size_t>(i)].grad();
    EXPECT_EQ(placements(grad), (Placements{r, r}));
    EXPECT_TRUE(same_bits(full_tensor(grad), ramp({6, 2}) * (i == 3 ? 3 : i + 1))) << i;
  }
}

// Catches: a list of which the first has moved when the last is refused.
TEST_F(RedistributeList, ErrorsComeBeforeAnythingMoves) {
  const auto other = init_device_mesh({6}, {}, world_);
  const auto x = distribute_tensor(ramp({4}), mesh_, {Shard{0}, Replicate{}});
  const auto y = distribute_tensor(ramp({6}), other, {Shard{0}});
  const Placements r{Replicate{}, Replicate{}};
  const auto refused = [&](const std::vector<at::Tensor>& list, const std::vector<Placements>& to) {
    std::string said;
    EXPECT_EQ(calls_of([&] { said = error_of([&] { redistribute(list, to); }); }), 0);
    return said;
  };
  EXPECT_TRUE(says(refused({x, at::ones({2})}, {r}), {"[redistribute] needs a DTensor"}));
  EXPECT_TRUE(
      says(refused({x, y}, {r}), {"[redistribute] tensors of two meshes in one list, dp:2,tp:3 and 6"}));
  EXPECT_TRUE(says(refused({x, x, x}, {r, r}), {"2 placements and 0 orders for 3 tensors"}));
  EXPECT_NE(refused({x, x}, {r, {Shard{1}, Replicate{}}}), "");
}

// Ranks that share no thread meet in the same exchanges. Catches: exchanges that are joined in an order of
// this process's own.
TEST(RedistributeListOnThreads, IsEachAlone) {
  run_on_threads(4, std::chrono::seconds(20), [](const WorldPtr& world) {
    const auto mesh = init_device_mesh({2, 2}, {}, world);
    std::vector<at::Tensor> list;
    for (const auto& a : placement_choices(1))
      for (const auto& b : placement_choices(1))
        list.push_back(distribute_tensor(ramp({7}) + std::ssize(list), mesh, {a, b}));
    const auto moved = redistribute(list, {{Replicate{}, Shard{0}}});
    for (size_t i = 0; i < list.size(); ++i)
      EXPECT_TRUE(same_bits(full_tensor(moved[i]), ramp({7}) + static_cast<int64_t>(i))) << spec(list[i]);
  });
}

}  // namespace
}  // namespace lockstep
