// SPDX-License-Identifier: Apache-2.0
// What fully_shard holds at most, by libtorch's own count of bytes.
#include "suites/train/memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/fsdp/fully_shard.h"
#include "engine/nn/layers.h"
#include "engine/stream/random_source.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kRanks = 4, kLayers = 6, kSize = 96;
constexpr int64_t kGroup = kSize * kSize * 4;      // bytes of one layer
constexpr int64_t kSmall = kLayers * kSize * 256;  // activations of one example a rank, and what ops need

struct Held {
  int64_t before = 0;    // of a step: the parts of all ranks
  int64_t forward = 0;   // at most, beyond that
  int64_t backward = 0;  // at most, beyond the parts of parameters and gradients
};

Held held(bool reshard_after_forward) {
  PeakMemory memory;
  const auto mesh = init_device_mesh({kRanks});
  nn::Sequential model;
  for (int64_t i = 0; i < kLayers; ++i) {
    const auto layer = std::make_shared<nn::Linear>(kSize, kSize, false);
    model.push_back(layer);
    fully_shard(*layer, mesh, {.reshard_after_forward = reshard_after_forward});
  }
  fully_shard(model, mesh);
  manual_seed(1);
  nn::reset_parameters(model);
  const auto x = distribute_tensor(at::ones({kRanks, kSize}), mesh, {Shard{0}});
  memory.take_peak_bytes();
  Held held{.before = memory.take_peak_bytes()};
  const auto loss = model(x).sum();
  held.forward = memory.take_peak_bytes() - held.before;
  loss.backward();
  held.backward = memory.take_peak_bytes() - 2 * held.before;
  return held;
}

// Parts of parameters; forward, one layer gathered, which all ranks share; backward, besides parts of
// gradients two layers gathered, one for its turn, and, of the one at work and of that behind it, whose
// reduction is on its way, a term for each rank. Catches: a layer that stays gathered, a copy of what is
// gathered for each rank, gradients of more layers that wait.
TEST(Memory, IsPartsAndTheLayersAtWork) {
  const auto resharded = held(true);
  EXPECT_GE(resharded.before, kLayers * kGroup);
  EXPECT_LE(resharded.before, kLayers * kGroup + kSmall);
  EXPECT_GE(resharded.forward, kGroup);
  EXPECT_LE(resharded.forward, kGroup + kSmall);
  EXPECT_LE(resharded.backward, 2 * kGroup + 2 * kRanks * kGroup + kSmall);
  // Otherwise all of them, at the end of the forward.
  const auto gathered = held(false);
  EXPECT_GE(gathered.forward, kLayers * kGroup);
  EXPECT_LE(gathered.forward, kLayers * kGroup + kSmall);
}

}  // namespace
}  // namespace lockstep::suites
