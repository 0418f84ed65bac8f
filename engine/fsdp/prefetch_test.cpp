// SPDX-License-Identifier: Apache-2.0
// What a backward pass begins before its turn, and what ends after it.
#include <map>

#include "engine/fsdp/testing.h"
#include "engine/fsdp/unit.h"
#include "engine/nn/checkpoint.h"

namespace lockstep {
namespace {

// Catches: a unit whose sum over replicas has ended before the next one's gradients are at their shards; a
// mesh without replicas that adds up over some.
TEST(FullyShard, AReductionEndsWhileThePassGoesOn) {
  for (const bool replicates : {false, true}) {
    const auto mesh =
        replicates ? init_device_mesh({2, 2}, {"dp_replicate", "fsdp"}) : init_device_mesh({2}, {"fsdp"});
    Net net(6, 3);
    std::vector<FSDPModule> blocks;
    for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
    fully_shard(net, mesh);
    init(net);
    std::map<size_t, std::string> seen;  // of each block, while one is on its way back
    for (size_t i = 0; i < blocks.size(); ++i)
      net.each[i]->a->register_forward_hook([&, i](nn::Module&, const Tensors&, at::Tensor& inside) {
        inside.register_hook([&, i](const at::Tensor&) {
          for (const auto& block : blocks)
            seen[i] += block.unit()->is_scattering() ? 's' : block.unit()->is_adding_up() ? 'a' : '-';
          return at::Tensor();
        });
      });
    loss_of(net(batch(mesh, 1))).backward();
    const std::map<size_t, std::string> expected = {{2, "---"}, {1, "--s"}, {0, replicates ? "-sa" : "-s-"}};
    EXPECT_EQ(seen, expected);
  }
}

// Catches: what was on its way to shards, or over replicas, that the next pass adds to its own.
TEST(FullyShard, APassThatFailsLeavesNoReduction) {
  const auto mesh = init_device_mesh({2, 2}, {"dp_replicate", "fsdp"});
  Net net(6, 3), other(6, 3);
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  fully_shard(net, mesh);
  init(net);
  bool fails = true;
  net.each[0]->a->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& inside) {
    inside.register_hook([&](const at::Tensor&) {
      EXPECT_TRUE(blocks[1].unit()->is_scattering() && blocks[2].unit()->is_adding_up());
      if (fails) throw std::runtime_error("planted");
      return at::Tensor();
    });
  });
  EXPECT_THROW(loss_of(net(batch(mesh, 1))).backward(), std::runtime_error);
  const auto& lane = *blocks[0].unit()->lane;
  EXPECT_TRUE(lane.scattering == nullptr && lane.adding_up == nullptr);
  fails = false;
  loss_of(net(batch(mesh, 2))).backward();
  shard(other, mesh);
  loss_of(other(batch(mesh, 2))).backward();
  expect_same_parameters(net, other);
}

// FSDP2's implicit prefetch. Catches: a block that is gathered when it is there already or behind, or not
// before its own turn; one that frozen blocks behind it do not need; a list that is added to it; a second
// pass, a second step or a block that ran twice without it; another call in between, with or without
// gradients, that takes its place; a container without parameters of its own that does.
TEST(FullyShard, ThePassBackPrefetchesTheOneThatRanBefore) {
  const auto mesh = init_device_mesh({2});
  Net net(6, 4);
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  fully_shard(*net.blocks, mesh);
  fully_shard(net, mesh);
  init(net);
  using Gathered = std::vector<size_t>;
  std::map<size_t, Gathered> seen;  // while a block is on its way back
  for (size_t i = 0; i < blocks.size(); ++i)
    net.each[i]->a->register_forward_hook([&, i](nn::Module&, const Tensors&, at::Tensor& inside) {
      if (!inside.requires_grad()) return;
      inside.register_hook([&, i](const at::Tensor&) {
        seen[i].clear();
        for (size_t j = 0; j < blocks.size(); ++j)
          if (const auto& unit = *blocks[j].unit(); unit.buffer()->is_gathered() || unit.is_gathering())
            seen[i].push_back(j);
        return at::Tensor();
      });
    });
  const auto expect = [&](const std::map<size_t, Gathered>& expected) {
    EXPECT_EQ(seen, expected);
    EXPECT_TRUE(is_cut(net));
    for (const auto& block : blocks) EXPECT_FALSE(block.unit()->buffer()->is_gathered());
    seen.clear();
  };
  const std::map<size_t, Gathered> each = {{3, {2, 3}}, {2, {1, 2}}, {1, {0, 1}}, {0, {0}}};
  for (uint64_t step = 0; step < 2; ++step) {
    loss_of(net(batch(mesh, step))).backward();
    expect(each);
    const at::NoGradGuard no_grad;
    net(batch(mesh, step));
  }
  const auto twice = loss_of(net(batch(mesh, 1))) + loss_of(net(batch(mesh, 2)));
  twice.backward({}, /*retain_graph=*/true);
  expect(each);
  twice.backward();
  expect(each);
  auto loss = loss_of(net(batch(mesh, 1)));
  {
    const at::NoGradGuard no_grad;
    net(batch(mesh, 2));
  }
  loss.backward();
  expect(each);
  loss = loss_of(net(batch(mesh, 1)));
  const auto alone = loss_of((*net.each[3])(distribute_tensor(values({4, 6}, 2), mesh, {Shard{0}})));
  loss.backward();
  expect(each);
  alone.backward();
  expect({{3, {3}}});
  blocks[3].set_modules_to_backward_prefetch({blocks[0], blocks[1]});
  loss_of(net(batch(mesh, 1))).backward();
  expect({{3, {0, 1, 3}}, {2, {0, 1, 2}}, {1, {0, 1}}, {0, {0}}});
  blocks[3].set_modules_to_backward_prefetch({});
  for (auto& parameter : net.parameters())
    if (!parameter.is_same(net.last->parameter("weight"))) parameter.set_requires_grad(false);
  for (const size_t learns : {2, 3})
    for (auto& parameter : net.each[learns]->parameters()) parameter.set_requires_grad(true);
  loss_of(net(batch(mesh, 1))).backward();
  expect({{3, {2, 3}}, {2, {2}}});
}

// Catches: a second run that waits for each gather, or prefetches what runs after it.
TEST(FullyShard, ASecondRunPrefetchesTheOneThatRanBefore) {
  const auto mesh = init_device_mesh({2});
  Net net(6, 4);
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) {
    blocks.push_back(fully_shard(*block, mesh));
    checkpoint(*block);
  }
  fully_shard(net, mesh);
  init(net);
  std::map<size_t, std::vector<size_t>> seen;  // while a block runs again
  for (size_t i = 0; i < blocks.size(); ++i)
    net.each[i]->a->register_forward_hook([&, i](nn::Module&, const Tensors&, at::Tensor& inside) {
      if (!inside.requires_grad()) return;
      for (size_t j = 0; j < blocks.size(); ++j)
        if (const auto& unit = *blocks[j].unit(); unit.buffer()->is_gathered() || unit.is_gathering())
          seen[i].push_back(j);
    });
  for (uint64_t step = 0; step < 2; ++step) {
    loss_of(net(batch(mesh, step))).backward();
    EXPECT_EQ(seen, (decltype(seen){{3, {2, 3}}, {2, {1, 2}}, {1, {0, 1}}, {0, {0}}}));
    for (const auto& block : blocks) EXPECT_FALSE(block.unit()->buffer()->is_gathered());
    seen.clear();
  }
}

}  // namespace
}  // namespace lockstep
