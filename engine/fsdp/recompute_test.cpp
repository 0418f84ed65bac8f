// SPDX-License-Identifier: Apache-2.0
// Checkpointed modules under fully_shard: what is gathered for the second run, and when; whose gradients they
// are; and what would be wrong in silence is an error.
#include <algorithm>

#include "engine/fsdp/testing.h"
#include "engine/fsdp/unit.h"
#include "engine/layout/layout.h"
#include "engine/nn/checkpoint.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/timeline_log.h"

namespace lockstep {
namespace {

int64_t gathers(const Timeline& timeline) {
  return std::count_if(timeline.begin(), timeline.end(), [](const TimelineEntry& e) {
    return e.op == "lockstep::redistribute" && is_flat(*e.inputs[0].spec);
  });
}

// Blocks that are sharded by themselves, and those of the root's unit. Catches: a second run with parameters
// that are cut, whose gradients nobody reduces; what it gathers, gathered once more for its gradients;
// another mask.
TEST(FullyShard, RunsAgainWithWhatItGathersOnce) {
  const auto mesh = init_device_mesh({2});
  struct Dropping : Net {
    at::Tensor forward(const Tensors& in) override {
      return (*last)((*blocks)(at::dropout((*first)(in.at(0)), 0.3, true)));
    }
  };
  for (const bool by_themselves : {true, false})
    for (const bool before : {true, false}) {
      SCOPED_TRACE(concat(by_themselves, before));
      Dropping net, reference;
      const auto recompute = [&](bool now) {
        if (!now) return;
        checkpoint(*net.each[0]);
        checkpoint(*net.first);
        checkpoint(*net.each[1]);
      };
      recompute(before);
      for (size_t i = 0; i < 2 && by_themselves; ++i) fully_shard(*net.each[i], mesh);
      fully_shard(net, mesh);
      recompute(!before);
      init(net);
      const auto after_init = generator();
      replicate(reference, mesh);
      Timeline timeline;
      for (auto* model : {&net, &reference}) {
        generator() = after_init;
        const TimelineScope log(timeline);
        if (model == &reference) timeline.clear();
        loss_of((*model)(batch(mesh, 1))).backward();
        if (model == &net) {
          EXPECT_EQ(gathers(timeline), 2 * 11);  // for the forward, and for what runs again
        }
      }
      expect_same_parameters(net, reference);
      EXPECT_TRUE(is_cut(net));
    }
}

int64_t units_gathered(const std::vector<FSDPModule>& units) {
  return std::count_if(units.begin(), units.end(), [](const FSDPModule& u) {
    return u.unit()->buffer() != nullptr && (u.unit()->buffer()->is_gathered() || u.unit()->is_gathering());
  });
}

// Six blocks, each a unit and checkpointed; how many are gathered at most while one of them runs on the way
// back, and after that.
struct Back {
  int64_t most = 0, after = 0;
};
Back back(bool prefetch, bool all_again, bool frozen) {
  const auto mesh = init_device_mesh({2});
  Net net(6, 6);
  std::vector<FSDPModule> units;
  for (const auto& block : net.each) {
    units.push_back(fully_shard(*block, mesh));
    checkpoint(*block);
  }
  if (all_again) checkpoint(*net.blocks);
  fully_shard(net, mesh);
  init(net);
  for (size_t i = 1; i < units.size() && prefetch; ++i)
    units[i - 1].set_modules_to_forward_prefetch({units[i]});
  for (const auto& block : net.each)
    for (auto& parameter : block->parameters()) parameter.set_requires_grad(!frozen);
  Back seen;
  bool is_back = false;
  for (const auto& block : net.each)
    block->a->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& output) {
      if (!is_back) return;
      seen.most = std::max(seen.most, units_gathered(units));
      if (output.requires_grad())
        output.register_hook([&](const at::Tensor& gradient) {
          seen.most = std::max(seen.most, units_gathered(units));
          return gradient;
        });
    });
  auto loss = loss_of(net(batch(mesh, 1)));
  is_back = true;
  loss.backward();
  seen.after = units_gathered(units);
  return seen;
}

// Catches: blocks that stay gathered behind the one that is on its way back, for whoever prefetched them on
// the way forward, or because an outer block ran them again.
TEST(Recompute, GathersOneBlockAtATime) {
  for (const bool prefetch : {false, true})
    for (const bool all_again : {false, true})
      for (const bool frozen : {false, true}) {
        const auto seen = back(prefetch, all_again, frozen);
        // An outer block's first run prefetches; it is part of the way back.
        EXPECT_LE(seen.most, 2) << prefetch << all_again << frozen;
        EXPECT_EQ(seen.after, 0) << prefetch << all_again << frozen;
      }
}

// Catches: a model without gradients, called in a block that runs again, that stays gathered.
TEST(Recompute, WhatGivesNoGradientIsCutAgain) {
  const auto mesh = init_device_mesh({2});
  Net student, teacher;
  auto taught = shard(teacher, mesh);
  struct Distilled : nn::Module {
    Distilled(Net& s, Net& t) : from(s), to(t) {}
    at::Tensor forward(const Tensors& in) override {
      const at::Tensor target = [&] {
        const at::NoGradGuard no_grad;
        return to(in.at(0));
      }();
      return from(in[0]) - target;
    }
    Net &from, &to;
  } distilled(student, teacher);
  shard(student, mesh);
  checkpoint(distilled);
  const auto x = batch(mesh, 1).requires_grad_();
  loss_of(distilled(x)).backward();
  EXPECT_FALSE(taught.unit()->buffer()->is_gathered());
  EXPECT_TRUE(is_cut(teacher));
}

// Catches: gradients of one pass cast, divided and handed over call by call.
TEST(Recompute, AModuleCalledTwiceHandsOverOnce) {
  struct Scale : nn::Module {
    Scale() { add_parameter("weight", {1}, at::kFloat); }
    at::Tensor forward(const Tensors& in) override { return in.at(0) * parameter("weight"); }
  };
  const auto mesh = init_device_mesh({1});
  for (const bool again : {false, true}) {
    Scale scale;
    auto root = fully_shard(scale, mesh, {.mp_policy = {.reduce_dtype = at::kBFloat16}});
    root.set_gradient_divide_factor(3);
    init(scale);
    if (again) checkpoint(scale);
    const auto by = [&](double x) { return distribute_tensor(at::full({1}, x), mesh, {Replicate{}}); };
    (scale(by(256)) + scale(by(1))).sum().backward();
    // 257 / 3 in bf16; 256 / 3 and 1 / 3 are 85.5 and 0.33398.
    EXPECT_EQ(full_tensor(scale.parameter("weight").grad()).item<float>(), 85.5F) << again;
  }
}

// Catches: a second run with other values than the first, whose gradients are no one's.
TEST(Recompute, ParametersWrittenInBetweenAreAnError) {
  const auto mesh = init_device_mesh({2});
  for (const bool root : {true, false})
    for (const bool block : {true, false}) {
      Net net;
      shard(net, mesh);
      if (root) checkpoint(net);
      for (const auto& each : net.each)
        if (block || !root) checkpoint(*each);
      const auto loss = loss_of(net(batch(mesh, 1)));
      {
        const at::NoGradGuard no_grad;
        at::Tensor(net.parameter("blocks.0.a.weight")).mul_(2);
      }
      EXPECT_NE(
          error_of([&] { loss.backward(); }).find("was written between a forward and its backward pass"),
          std::string::npos)
          << root << block;
    }
}

// Catches: a gradient of some tensors alone that adds to those of parameters.
TEST(Recompute, APassForSomeTensorsAloneIsAnError) {
  const auto mesh = init_device_mesh({2});
  Net net;
  shard(net, mesh);
  for (const auto& block : net.each) checkpoint(*block);
  const auto x = batch(mesh, 1).requires_grad_();
  const auto loss = loss_of(net(x));
  EXPECT_NE(error_of([&] { torch::autograd::grad({loss}, {x}); }).find("use backward()"), std::string::npos);
  for (const auto& parameter : net.parameters()) EXPECT_FALSE(parameter.grad().defined());
  EXPECT_TRUE(is_cut(net));
  loss_of(net(x)).backward();
  EXPECT_TRUE(net.parameter("first.weight").grad().defined());
}

}  // namespace
}  // namespace lockstep
