// SPDX-License-Identifier: Apache-2.0
// fully_shard of a list of modules: one buffer, one gather on the way there and one on the way back, one
// reduction; bits as without.
#include "engine/fsdp/held_memory.h"
#include "engine/fsdp/testing.h"
#include "engine/fsdp/unit.h"
#include "engine/nn/checkpoint.h"

namespace lockstep {
namespace {

using Modules = std::vector<nn::Module*>;

Modules ends_of(Net& net) {
  return {net.first.get(), net.last.get()};
}

// The first and the last layer in one unit, the blocks between them in others, and the root, which has
// nothing.
std::vector<FSDPModule> shard_ends(Net& net, const MeshInWorld& mesh, const FullyShardOptions& options = {}) {
  std::vector<FSDPModule> units = {fully_shard(ends_of(net), mesh, options)};
  for (const auto& block : net.each) units.push_back(fully_shard(*block, mesh, options));
  units.push_back(fully_shard(net, mesh, options));
  init(net);
  return units;
}

// Two layers of one weight.
struct Tied : nn::Module {
  Tied() {
    add_child("a", a);
    add_child("b", b);
    b->set_parameter("weight", a->parameter("weight"));
  }
  at::Tensor forward(const Tensors& in) override { return (*b)((*a)(in.at(0)).tanh()); }
  std::shared_ptr<nn::Linear> a = std::make_shared<nn::Linear>(5, 5), b = std::make_shared<nn::Linear>(5, 5);
};

bool is_gathered(const FSDPModule& unit) {
  return unit.unit()->buffer()->is_gathered();
}

// Catches: a parameter of the second module that is not gathered, or whose gradient is not reduced; a mix-up
// of paths of one name.
TEST(ShardedList, HasTheBitsOfModulesByThemselves) {
  for (const int64_t ranks : {1, 2, 3})
    for (const bool recompute : {false, true}) {
      const auto mesh = init_device_mesh({ranks});
      Net net, reference;
      shard_ends(net, mesh, {.reshard_after_forward = ranks != 3});
      shard(reference, mesh);
      for (auto* model : {&net, &reference}) {
        if (recompute)
          for (auto* module : ends_of(*model)) checkpoint(*module);
        for (const uint64_t seed : {1, 2}) loss_of((*model)(parameter(batch(mesh, seed)))).backward();
      }
      expect_same_parameters(net, reference);
      EXPECT_TRUE(is_cut(net));
    }
}

// Catches: one that is cut, or reduced, after each of its modules; one that stays whole when all have run.
TEST(ShardedList, IsWholeFromItsFirstModuleToItsLast) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const auto units = shard_ends(net, mesh);
  std::vector<bool> whole;  // in block 1 on the way there, and on the way back
  net.each[1]->a->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& inside) {
    whole.push_back(is_gathered(units[0]));
    EXPECT_TRUE(is_cut(*net.first)) << "shown within its calls alone";
    inside.register_hook([&](const at::Tensor&) {
      whole.push_back(is_gathered(units[0]) && !units[0].unit()->is_scattering());
      return at::Tensor();
    });
  });
  const auto loss = loss_of(net(parameter(batch(mesh, 1))));
  EXPECT_FALSE(is_gathered(units[0]));
  loss.backward();
  EXPECT_FALSE(is_gathered(units[0]));
  EXPECT_EQ(whole, (std::vector<bool>{true, true}));
}

// Catches: a list that waits for ever for a module that does not run, or holds what the next forward needs
// anew.
TEST(ShardedList, IsCutWhenTheOutermostReturns) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const auto units = shard_ends(net, mesh);
  net.last->register_forward_hook([](auto&&...) { throw Error("stops here"); });
  EXPECT_THROW(net(batch(mesh, 1)), Error);
  EXPECT_FALSE(is_gathered(units[0]));
  EXPECT_TRUE(is_cut(net));
  const auto hidden = (*net.first)(batch(mesh, 1));  // outermost itself
  EXPECT_TRUE(is_cut(net));
  EXPECT_FALSE(is_gathered(units[0]));
  loss_of(hidden).backward();
  EXPECT_TRUE(net.first->parameter("weight").grad().defined());
  EXPECT_FALSE(net.last->parameter("weight").grad().defined());
}

// Catches: a round that a forward within a backward pass begins, and nobody ends: its parameters stay whole.
TEST(ShardedList, IsCutAfterAForwardWithinABackwardPass) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const auto units = shard_ends(net, mesh);
  int forwards = 0;
  net.each[1]->a->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& inside) {
    inside.register_hook([&](const at::Tensor&) {
      const at::NoGradGuard no_grad;
      if (forwards++ == 0) (*net.first)(batch(mesh, 2));
      return at::Tensor();
    });
  });
  loss_of(net(batch(mesh, 1))).backward();
  EXPECT_EQ(forwards, 1);
  EXPECT_TRUE(is_cut(net));
  EXPECT_FALSE(is_gathered(units[0]));
}

// Catches: neighbours that keep nothing where a round ends before all its modules have run.
TEST(ShardedList, NeighboursKeepWhatARoundLeaves) {
  const auto mesh = init_device_mesh({4});
  nn::Linear first(50, 100), last(50, 100);
  auto unit = fully_shard(Modules{&first, &last}, mesh, {.reshard_after_forward = 2});
  for (auto* module : {&first, &last}) init(*module);
  const auto memory = std::make_shared<fsdp::HeldMemory>();
  unit.watch_memory(memory);
  const auto output = first(distribute_tensor(values({4, 50}, 1), mesh, {Shard{0}}));
  memory->take_peak_bytes();
  EXPECT_EQ(memory->take_peak_bytes(), PerRank<int64_t>(4, 3 * unit.plan().shard_size * 4));
}

// Catches: a parameter of two modules of a list that becomes two.
TEST(ShardedList, MayShareParameters) {
  const auto mesh = init_device_mesh({3});
  Tied two, reference;
  fully_shard(Modules{two.a.get(), two.b.get()}, mesh);
  for (auto* model : {&two, &reference}) {
    fully_shard(*model, mesh);
    init(*model);
    loss_of((*model)(batch(mesh, 1))).backward();
  }
  EXPECT_TRUE(two.a->parameter("weight").is_same(two.b->parameter("weight")));
  expect_same_parameters(two, reference);
}

// Catches: second runs that are not of the rounds of their first ones where passes cross: terms that are
// added up in another order.
TEST(ShardedList, PassesMayCrossBeforeTheirSecondRuns) {
  const auto mesh = init_device_mesh({3});
  Tied crossed, in_turn;
  for (auto* model : {&crossed, &in_turn}) {
    fully_shard(Modules{model->a.get(), model->b.get()}, mesh);
    fully_shard(*model, mesh);
    for (auto* module : {model->a.get(), model->b.get()}) checkpoint(*module);
    init(*model);
  }
  const auto loss = [&](Tied& model, uint64_t seed) { return loss_of(model(parameter(batch(mesh, seed)))); };
  const auto first = loss(crossed, 1), second = loss(crossed, 2);
  first.backward();
  second.backward();
  for (const uint64_t seed : {1, 2}) loss(in_turn, seed).backward();
  expect_same_parameters(crossed, in_turn);
}

// Catches: a handle that follows the first module alone.
TEST(ShardedList, IsOneHandle) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const auto units = shard_ends(net, mesh);
  auto ends = units[0];
  EXPECT_EQ(ends.parameters().size(), 3u);
  ends.unshard();
  EXPECT_FALSE(is_cut(*net.first) || is_cut(*net.last));
  ends.reshard();
  EXPECT_TRUE(is_cut(net));
  ends.set_requires_gradient_sync(false);
  loss_of(net(batch(mesh, 1))).backward();
  for (auto* module : ends_of(net)) EXPECT_FALSE(module->parameter("weight").grad().defined());
}

// Catches: what cannot be meant; a half-sharded model after it.
TEST(ShardedList, WhatCannotBeMeantIsAnError) {
  const auto mesh = init_device_mesh({2});
  Net net;
  const auto expect = [&](const char* part, const Modules& modules) {
    const auto error = error_of([&] { fully_shard(modules, mesh); });
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect("is given no module", {});
  expect("module 1 is within module 0", {&net, net.first.get()});
  expect("module 0 is within module 1", {net.each[0]->a.get(), net.each[0].get()});
  expect("module 1 is within module 0, or the same", {net.first.get(), net.first.get()});
  const auto units = shard_ends(net, mesh);
  expect("sharded already", {net.last.get()});
  loss_of(net(batch(mesh, 1))).backward();
  EXPECT_TRUE(is_cut(net));
}

// Catches: a unit that writes to a module that has been destroyed.
TEST(ShardedList, OneOfItsModulesMayGo) {
  const auto mesh = init_device_mesh({2});
  auto a = std::make_shared<nn::Linear>(5, 4), b = std::make_shared<nn::Linear>(5, 4);
  auto unit = fully_shard(Modules{a.get(), b.get()}, mesh);
  init(*b);
  a.reset();
  loss_of((*b)(batch(mesh, 1))).backward();
  EXPECT_TRUE(b->parameter("weight").grad().defined());
  EXPECT_EQ(unit.parameters().size(), 2u);
  b.reset();
  EXPECT_THROW(unit.parameters(), Error);
}

}  // namespace
}  // namespace lockstep
