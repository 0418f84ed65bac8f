// SPDX-License-Identifier: Apache-2.0
// Initialisers: torch's formulas, and on a distributed tensor the bits of the plain run.
#include "engine/nn/init.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "engine/random/random.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

using Init = at::Tensor& (*)(at::Tensor&);

const std::map<std::string, Init> kInits = {
    {"kaiming_uniform_", [](at::Tensor& w) -> at::Tensor& { return kaiming_uniform_(w, 0.2); }},
    {"kaiming_normal_", [](at::Tensor& w) -> at::Tensor& { return kaiming_normal_(w, 0.2); }},
    {"xavier_uniform_", [](at::Tensor& w) -> at::Tensor& { return xavier_uniform_(w, 2); }},
    {"xavier_normal_", [](at::Tensor& w) -> at::Tensor& { return xavier_normal_(w, 2); }},
    {"trunc_normal_", [](at::Tensor& w) -> at::Tensor& { return trunc_normal_(w, 0.5, 2, -1, 3); }},
    {"orthogonal_", [](at::Tensor& w) -> at::Tensor& { return orthogonal_(w, 1.5); }}};

void begin() {
  generator() = {{31, 8}, {1, 256}};
}

at::Tensor plain(Init init, const std::vector<int64_t>& shape, at::ScalarType dtype) {
  ClosedFormSource source;
  begin();
  const RandomScope scope(source);
  auto weight = at::empty(shape, dtype);
  return init(weight);
}

// Catches: fans or a factorisation of the shard, an operator whose shards round otherwise.
TEST(Init, DistributedTensorsGetThePlainBits) {
  const auto mesh = init_device_mesh({2, 3});
  for (const auto& [name, init] : kInits)
    for (const auto& shape :
         {std::vector<int64_t>{20, 33}, std::vector<int64_t>{33, 20}, std::vector<int64_t>{12, 5, 3, 2}})
      for (const auto dtype : {at::kFloat, at::kDouble}) {
        const auto expected = plain(init, shape, dtype);
        const auto state = generator().state;
        for (const Placement& a :
             {Placement(Replicate{}), Placement(Shard{0}), Placement(InterleavedShard{1, 2})})
          for (const Placement& b : {Placement(Replicate{}), Placement(Shard{0}), Placement(Shard{1})}) {
            auto weight = lockstep::zeros(shape, mesh, {a, b}, dtype);
            begin();
            init(weight);
            EXPECT_TRUE(full_tensor(weight).equal(expected)) << name << " " << to_string(spec(weight));
            EXPECT_EQ(generator().state, state);
          }
      }
}

// Catches: another sign convention, a wide matrix that is not transposed, the gain left out.
TEST(Init, OrthogonalIsTorchs) {
  for (const auto& shape :
       {std::vector<int64_t>{8, 5}, std::vector<int64_t>{5, 8}, std::vector<int64_t>{4, 3, 2}}) {
    const auto ours = plain(kInits.at("orthogonal_"), shape, at::kFloat);
    ClosedFormSource source;
    begin();
    const RandomScope scope(source);
    EXPECT_TRUE(torch::nn::init::orthogonal_(at::empty(shape), 1.5).equal(ours)) << shape;
  }
  auto vector = at::empty({4});
  EXPECT_THROW(orthogonal_(vector), Error);
}

// Catches: bounds that are not mapped through the distribution, a mean or std applied twice.
TEST(Init, TruncatedNormalIsOne) {
  ClosedFormSource source;
  begin();
  const RandomScope scope(source);
  auto weight = at::empty({200000}, at::kDouble);
  trunc_normal_(weight, 1, 2, -1, 5);
  EXPECT_GE(weight.min().item<double>(), -1);
  EXPECT_LE(weight.max().item<double>(), 5);
  // Of the standard normal between -1 and 2: mean 0.22964, variance 0.51976.
  EXPECT_NEAR(weight.mean().item<double>(), 1 + 2 * 0.22964, 0.01);
  EXPECT_NEAR(weight.std().item<double>(), 2 * std::sqrt(0.51976), 0.01);
}

}  // namespace
}  // namespace lockstep::nn
