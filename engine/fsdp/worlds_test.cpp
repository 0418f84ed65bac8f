// SPDX-License-Identifier: Apache-2.0
// fully_shard with a thread for each rank: what one thread that hosts all of them gets, bit for bit.
#include "engine/fsdp/testing.h"
#include "engine/nn/checkpoint.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

struct Sharded {
  const char* what;
  std::vector<int64_t> mesh;
  FullyShardOptions options = {};
  bool checkpoints = false, prefetches = false;
};

// The parameters' gradients after two passes and an update, whole.
Tensors trained(const Sharded& setup, const WorldPtr& world) {
  const auto mesh = init_device_mesh(setup.mesh, {}, world);
  Net net;
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh, setup.options));
  auto root = fully_shard(net, mesh, setup.options);
  if (setup.checkpoints)
    for (const auto& block : net.each) checkpoint(*block);
  if (setup.prefetches) {
    root.set_modules_to_forward_prefetch(blocks);
    blocks[1].set_modules_to_backward_prefetch({blocks[0]});
  }
  init(net);
  Tensors all;
  for (uint64_t step = 0; step < 2; ++step) {
    loss_of(net(batch(mesh, step))).backward();
    const at::NoGradGuard no_grad;
    for (auto& p : net.parameters()) {
      all.push_back(full_tensor(p.grad()).clone());
      p.sub_(p.grad(), 0.1);
    }
    net.zero_grad();
  }
  return all;
}

// Catches: ranks that meet in another order, or with others, than those that one thread hosts.
TEST(FullyShardOnThreads, HasTheBitsOfOneThread) {
  const MixedPrecisionPolicy mixed{.param_dtype = at::kBFloat16, .reduce_dtype = at::kFloat};
  const std::vector<Sharded> setups = {
      {.what = "plain", .mesh = {3}},
      {.what = "mixed", .mesh = {4}, .options = {.mp_policy = mixed}},
      {.what = "among two", .mesh = {4}, .options = {.reshard_after_forward = 2}},
      {.what = "HSDP", .mesh = {2, 2}, .options = {.mp_policy = mixed}},
      {.what = "again", .mesh = {2, 2}, .checkpoints = true, .prefetches = true},
      {.what = "among two, again", .mesh = {4}, .options = {.reshard_after_forward = 2}, .checkpoints = true},
  };
  for (const auto& setup : setups) {
    int64_t ranks = 1;
    for (const int64_t n : setup.mesh) ranks *= n;
    const auto expected = trained(setup, local_world(ranks));
    run_on_threads(ranks, std::chrono::minutes(1), [&](const WorldPtr& world) {
      const auto actual = trained(setup, world);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) EXPECT_TRUE(same(actual[i], expected[i])) << setup.what << i;
    });
  }
}

}  // namespace
}  // namespace lockstep
