// SPDX-License-Identifier: Apache-2.0
// Deferred initialisation: the bits of one device, rank by rank, in the memory of a shard.
#include "engine/nn/deferred.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/nn/blocks.h"
#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/world/worlds.h"

namespace lockstep::nn {
namespace {

constexpr int64_t kWords = 50, kHidden = 12;

std::shared_ptr<Sequential> make_model() {
  auto model = std::make_shared<Sequential>();
  model->push_back(std::make_shared<Embedding>(kWords, kHidden));
  model->push_back(std::make_shared<Attention>(AttentionOptions{kHidden, 4, 2, 16}));
  model->push_back(std::make_shared<LayerNorm>(kHidden));
  model->push_back(std::make_shared<Mlp>(kHidden, 20));
  model->push_back(std::make_shared<Linear>(kHidden, kWords, /*bias=*/true));
  return model;
}

std::vector<ParameterPlacement> table() {
  return {{"0.weight", parse_placements("[S0,R]")},
          {"1.*_proj.weight", parse_placements("[S1,S0]")},
          {"3.*.weight", parse_placements("[S0,S0]")},
          {"4.weight", parse_placements("[R,S1]")},
          {"1.core.mask", parse_placements("[S0,S1]")}};
}

// Catches: values drawn from another offset, in another order or from local shapes; buffers that stay without
// values; a generator that ends elsewhere.
TEST(Deferred, ValuesAreThoseOfOneDevice) {
  const auto plain = make_model();
  RandomState after;
  {
    ClosedFormSource source;
    const RandomScope scope(source);
    manual_seed(7);
    reset_parameters(*plain);
    after = generator().state;
  }
  const auto model = deferred_init(make_model);
  manual_seed(7);
  materialize(*model, init_device_mesh({2, 3}), table());
  EXPECT_EQ(generator().state, after);
  for (const auto& [path, value] : plain->named_parameters())
    EXPECT_TRUE(at::equal(value, full_tensor(model->parameter(path)))) << path;
  for (const auto& [path, value] : plain->named_buffers())
    EXPECT_TRUE(at::equal(value, full_tensor(model->buffer(path)))) << path;
}

// Catches: a rank that needs the others to draw its own part.
TEST(Deferred, OneRankAtATime) {
  const DeviceMesh mesh({2, 3});
  const auto together = deferred_init(make_model);
  manual_seed(7);
  materialize(*together, init_device_mesh({2, 3}), table());
  for (int64_t rank = 0; rank < mesh.size(); ++rank) {
    const auto alone = deferred_init(make_model);
    manual_seed(7);
    materialize(*alone, init_device_mesh({2, 3}, {}, lone_world(mesh.size(), rank)), table());
    for (const auto& [path, value] : alone->named_parameters()) {
      ASSERT_EQ(local_tensors(value).size(), 1u);
      EXPECT_TRUE(at::equal(local_tensors(value)[0],
                            local_tensors(together->parameter(path))[static_cast<size_t>(rank)]))
          << path << " on rank " << rank;
    }
  }
}

// Catches: a lone rank that waits for others, or answers for them.
TEST(Deferred, ALoneRankRefusesCollectives) {
  const auto mesh = init_device_mesh({2}, {}, lone_world(2, 1));
  const auto x = lockstep::ones({4}, mesh, parse_placements("[S0]"));
  EXPECT_EQ(local_tensors(x)[0].numel(), 2);
  EXPECT_THROW(full_tensor(x), Error);
  EXPECT_THROW(lone_world(2, 2), Error);
}

// Catches: a model that has memory before it is cut.
TEST(Deferred, ModelsWithMemoryAreRefused) {
  const auto model = deferred_init(make_model);
  reset_parameters(*model);
  EXPECT_THROW(require_deferred(*model), Error);
  EXPECT_THROW(materialize(*model, init_device_mesh({2, 3}), table()), Error);
}

}  // namespace
}  // namespace lockstep::nn
