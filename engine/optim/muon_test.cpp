// SPDX-License-Identifier: Apache-2.0
#include "engine/optim/muon.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/optim/adamw8bit.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/world.h"
#include "engine/world/worlds.h"

namespace lockstep::optim {
namespace {

// Catches: costs that are taken from the smallest on, a root that is not the least loaded, ties that go to a
// later rank or matrix.
TEST(SelectRootsTest, TheLeastLoadedRankTakesTheNextLargest) {
  EXPECT_EQ(select_roots({}, 3), std::vector<int64_t>());
  EXPECT_EQ(select_roots({1, 1, 1, 1}, 3), (std::vector<int64_t>{0, 1, 2, 0}));
  EXPECT_EQ(select_roots({1, 5, 3, 3}, 2), (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(select_roots({2, 2, 2}, 1), (std::vector<int64_t>{0, 0, 0}));
}

// No rank has more than the average and one matrix to do. Catches: a load that is forgotten.
TEST(SelectRootsTest, LoadsAreBalanced) {
  std::mt19937_64 random(1);
  for (int64_t trial = 0; trial < 200; ++trial) {
    const auto ranks = static_cast<int64_t>(random() % 7 + 1);
    std::vector<double> costs(random() % 20 + 1);
    for (double& cost : costs) cost = static_cast<double>(random() % 50 + 1);
    const auto roots = select_roots(costs, ranks);
    std::vector<double> load(as_size(ranks));
    for (size_t i = 0; i < costs.size(); ++i) load[as_size(roots[i])] += costs[i];
    const double all = std::accumulate(costs.begin(), costs.end(), 0.0);
    EXPECT_LE(*std::max_element(load.begin(), load.end()),
              all / static_cast<double>(ranks) + *std::max_element(costs.begin(), costs.end()));
  }
}

at::Tensor matrix(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed));
}

// Catches: an error that does not name what is no matrix, a tile of nothing.
TEST(MuonTest, SaysWhatItDoesNotStep) {
  const auto says = [](const auto& make, const char* what) {
    try {
      make();
      ADD_FAILURE() << what;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  says([] { Muon({at::zeros({4})}); }, "of shape [4]; give it to AdamW");
  says([] { Muon({at::zeros({4, 4})}, {.ns_steps = 100}); }, "ns_steps of 100; from 0 to 99");
  says([] { Muon({at::zeros({4, 4}, at::kMeta)}); }, "steps parameters on the CPU alone, and one is on meta");
  says([] { AdamW8bit({at::zeros({4, 4})}, {.block_size = 0}); }, "block_size of 0");
}

// A direction is made of a copy: without nesterov it is of the momentum itself, which torch 2.11 scales in
// bfloat16. Catches: a momentum that is written to, a gradient that is.
TEST(MuonTest, WritesToParameterAndMomentumAlone) {
  for (const bool nesterov : {false, true}) {
    const auto p = matrix({4, 6}, 1).to(at::kBFloat16).requires_grad_();
    const auto gradient = matrix({4, 6}, 2).to(at::kBFloat16);
    p.mutable_grad() = gradient.clone();
    Muon muon({p}, {.momentum = 0.5, .nesterov = nesterov});
    muon.step();
    EXPECT_TRUE(p.grad().equal(gradient));
    EXPECT_TRUE(muon.momentum()[0].equal(at::zeros_like(gradient).lerp(gradient, 0.5))) << nesterov;
  }
}

// Counts what is on its way.
class Counting : public World {
 public:
  explicit Counting(WorldPtr world) : World(*world), world_(std::move(world)) {}
  Work exchange(Exchange asked) override {
    most = std::max(most, ++open_);
    return world_->exchange(std::move(asked)).then([this] { --open_; });
  }
  int64_t most = 0;

 private:
  WorldPtr world_;
  int64_t open_ = 0;
};

// Four roots: while one is at work, the next matrices of all of them are on their way, and what is done goes
// back. Catches: matrices that are waited for one by one, one that is never waited for.
TEST(MuonTest, MatricesAreOnTheirWayTogether) {
  const auto counting = std::make_shared<Counting>(local_world(4));
  const auto mesh = init_device_mesh({4}, {"dp"}, counting);
  Tensors parameters;
  for (uint64_t i = 0; i < 12; ++i) {
    parameters.push_back(parameter(distribute_tensor(matrix({8, 4}, i), mesh, {Shard{0}})));
    parameters.back().mutable_grad() = distribute_tensor(matrix({8, 4}, 20 + i), mesh, {Shard{0}});
  }
  counting->most = 0;
  Muon muon(parameters);
  muon.step();
  EXPECT_GE(counting->most, 12);
  EXPECT_EQ(take_never_waited(), std::vector<std::string>());
}

// A matrix that lies column by column is one device's where it is cut, too. Catches: a root that takes a flat
// part for rows, and whose products of matrices round otherwise.
TEST(MuonTest, ColumnsStayColumns) {
  const auto mesh = init_device_mesh({2}, {"fsdp"});
  const auto value = matrix({96, 64}, 1).t(), gradient = matrix({96, 64}, 2).t();
  const auto plain = value.clone().requires_grad_();
  const auto cut = parameter(distribute_tensor(value, mesh, {RaggedShard{{0}, {1, 3}, 1}}));
  plain.mutable_grad() = gradient;
  cut.mutable_grad() = distribute_tensor(gradient, mesh, {RaggedShard{{0}, {1, 3}, 1}});
  for (const auto& parameter : {plain, cut}) {
    Muon muon({parameter}, {.single_precision = true});
    muon.step();
  }
  EXPECT_TRUE(at::equal(plain.detach(), full_tensor(cut).detach()));
}

}  // namespace
}  // namespace lockstep::optim
