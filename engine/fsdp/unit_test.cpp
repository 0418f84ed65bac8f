// SPDX-License-Identifier: Apache-2.0
// When units are gathered and cut: calls within calls, passes within passes, passes that fail.
#include "engine/fsdp/unit.h"
#include "engine/fsdp/testing.h"
#include "engine/nn/checkpoint.h"
#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// Catches: a second call that finds nothing gathered, whose gradient is lost, or that waits for the first.
TEST(FullyShard, AModuleMayBeCalledTwice) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  const auto run = [&](Net& model) {
    const auto x = (*model.first)(batch(mesh, 1));
    return loss_of((*model.each[0])((*model.each[1])((*model.each[0])(x))));
  };
  for (auto* model : {&net, &reference}) run(*model).backward();
  for (const auto* path : {"blocks.0.a.weight", "blocks.1.b.weight", "blocks.0.norm.weight"})
    EXPECT_TRUE(at::allclose(full_tensor(net.parameter(path).grad()),
                             full_tensor(reference.parameter(path).grad()), 1e-4, 1e-5))
        << path;
  EXPECT_FALSE(net.parameter("last.weight").grad().defined());  // unused
}

// Catches: values of the step before, where parameters are written while they are gathered.
TEST(FullyShard, ReadsWhatWasWrittenMeanwhile) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh, {.reshard_after_forward = false});
  replicate(reference, mesh);
  const auto cut = net.parameters();
  const at::NoGradGuard no_grad;
  for (uint64_t round = 0; round < 3; ++round) {
    const auto x = batch(mesh, round);
    EXPECT_TRUE(same(full_tensor(net(x)), full_tensor(reference(x))));
    EXPECT_TRUE(is_cut(net)) << "what is gathered is shown";
    for (const auto& parameters : {cut, reference.parameters()})
      for (auto parameter : parameters) parameter.mul_(0.5);
  }
}

TEST(FullyShard, UnshardAndReshardByHand) {
  const auto mesh = init_device_mesh({3});
  Net net;
  auto root = shard(net, mesh);
  const auto cut = net.parameter("first.weight");
  EXPECT_EQ(to_string(placements(cut)).substr(0, 2), "[G");
  root.unshard();
  EXPECT_EQ(to_string(placements(net.parameter("first.weight"))), "[R]");
  EXPECT_TRUE(same(full_tensor(net.parameter("first.weight").detach()), full_tensor(cut.detach())));
  {
    const at::NoGradGuard no_grad;
    at::Tensor(cut).fill_(2);
  }
  root.unshard();  // again, since it was written
  EXPECT_TRUE(full_tensor(net.parameter("first.weight").detach()).eq(2).all().item<bool>());
  root.reshard();
  EXPECT_TRUE(net.parameter("first.weight").is_same(cut));
}

// Catches: a gather that is awaited at once, or begun only where it is awaited; parameters that a call does
// not wait for, or that it cuts; a handle that gathers anew what was cut by hand.
TEST(FullyShard, UnshardBegunByHand) {
  const auto mesh = init_device_mesh({3});
  Net net;
  auto root = shard(net, mesh, {.reshard_after_forward = false});
  const auto& unit = *root.unit();
  const auto is_whole = [&] { return to_string(placements(net.parameter("first.weight"))) == "[R]"; };
  for (const bool by_call : {false, true}) {
    auto handle = root.unshard(true);
    EXPECT_TRUE(unit.is_gathering());
    EXPECT_FALSE(is_whole());
    if (by_call)
      net(batch(mesh, 1));
    else
      handle.wait();
    EXPECT_FALSE(unit.is_gathering());
    EXPECT_TRUE(unit.buffer()->is_gathered());
    handle.wait();
    EXPECT_TRUE(is_whole());
    root.reshard();
    handle.wait();
    EXPECT_FALSE(unit.buffer()->is_gathered());
    EXPECT_FALSE(is_whole());
  }
  root.unshard(true);
  root.reshard();
  EXPECT_FALSE(unit.buffer()->is_gathered());
}

// Catches: a parameter that trains on, since who froze it had the other of its two tensors.
TEST(FullyShard, EitherTensorOfAParameterFreezesIt) {
  for (const bool whole : {false, true}) {
    const auto mesh = init_device_mesh({3});
    Net net;
    auto root = shard(net, mesh);
    const auto cut = net.parameter("first.weight");
    for (const bool learns : {false, true, false}) {
      root.unshard();
      at::Tensor(whole ? net.parameter("first.weight") : cut).set_requires_grad(learns);
      root.reshard();
      at::Tensor(cut).mutable_grad() = at::Tensor();
      net(batch(mesh, 1)).sum().backward();
      EXPECT_EQ(cut.requires_grad(), learns) << whole;
      EXPECT_EQ(cut.grad().defined(), learns) << whole;
    }
  }
}

void expect_same_gradient(const nn::Module& a, const nn::Module& b, const char* path) {
  ASSERT_TRUE(a.parameter(path).grad().defined()) << path;
  EXPECT_TRUE(
      at::allclose(full_tensor(a.parameter(path).grad()), full_tensor(b.parameter(path).grad()), 1e-4, 1e-5))
      << path;
}

// next step.
TEST(FullyShard, AUnitThatThePassLeavesOutHandsOverToo) {
  const auto mesh = init_device_mesh({3});
  Net net, reference;
  auto root = shard(net, mesh);
  replicate(reference, mesh);
  const auto pass = [&](Net& model, bool all) {
    const auto x = (*model.each[0])((*model.first)(batch(mesh, 1)));
    loss_of(all ? (*model.each[1])(x) : x).backward();
  };
  for (const bool syncs : {false, true}) {
    root.set_requires_gradient_sync(syncs);
    for (auto* model : {&net, &reference}) pass(*model, !syncs);
  }
  for (const auto* path : {"blocks.1.a.weight", "blocks.0.b.weight"})
    expect_same_gradient(net, reference, path);
}

// Catches: a pass within a pass that is taken for the end of the outer one, or for one that failed.
TEST(FullyShard, APassWithinAPassTakesNothing) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (auto* model : {&net, &reference}) {
    const auto x = (*model->first)(batch(mesh, 1));
    const auto hidden = (*model->each[0])(x);
    hidden.register_hook([model, other = x.detach()](const at::Tensor&) {
      const at::AutoGradMode on(true);
      const auto leaf = other.detach().requires_grad_();
      torch::autograd::grad({loss_of((*model->each[1])(leaf))}, {leaf});
      return at::Tensor();
    });
    // It hands nothing over: the outer one does, at its end. One that fails, and is caught, ends itself
    // alone.
    x.register_hook([model, &net, other = x.detach()](const at::Tensor&) {
      EXPECT_TRUE(model != &net || !net.parameter("blocks.1.a.weight").grad().defined());
      const at::AutoGradMode on(true);
      const auto leaf = other.detach().requires_grad_();
      const auto inside = leaf * 1;
      inside.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("fails within"); });
      const auto inner = (*model->each[0])(inside);
      EXPECT_THROW(torch::autograd::grad({loss_of(inner)}, {leaf}), std::exception);
      return at::Tensor();
    });
    loss_of((*model->each[1])(hidden)).backward();
  }
  for (const auto* path : {"blocks.1.a.weight", "blocks.1.norm.weight", "blocks.0.b.weight"})
    expect_same_gradient(net, reference, path);
}

// Catches: a forward within a backward pass that takes the parameters from under it.
TEST(FullyShard, AForwardWithinABackwardPass) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (auto* model : {&net, &reference}) {
    const auto number = model->each[1]->a->register_forward_hook(
        [model, &mesh](nn::Module&, const Tensors&, at::Tensor& inside) {
          inside.register_hook([model, &mesh](const at::Tensor&) {
            const at::NoGradGuard no_grad;
            (*model->each[1])((*model->first)(batch(mesh, 2)));
            return at::Tensor();
          });
        });
    const auto loss = loss_of((*model)(batch(mesh, 1)));
    model->each[1]->a->remove_hook(number);
    loss.backward();
  }
  expect_same_parameters(net, reference);
}

// Catches: a graph that is walked twice without its parameters.
TEST(FullyShard, AGraphMayBeWalkedTwice) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (auto* model : {&net, &reference}) {
    const auto loss = loss_of((*model)(batch(mesh, 1)));
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
  }
  expect_same_parameters(net, reference);
}

// Catches: an inner pass over the same calls that takes the outer one's parameters away, in whose block a
// layer runs again. (A checkpoint's own node that comes to itself waits for ever, in libtorch.)
TEST(FullyShard, AGraphMayBeWalkedWithinItsOwnPass) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (auto* model : {&net, &reference}) {
    checkpoint(*model->each[1]->a);
    at::Tensor loss;
    int walks = 0;
    model->each[1]->b->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& output) {
      output.register_hook([&](const at::Tensor&) {
        if (walks++ == 0) loss.backward({}, /*retain_graph=*/true);
        return at::Tensor();
      });
    });
    loss = loss_of((*model)(parameter(batch(mesh, 1))));
    loss.backward({}, /*retain_graph=*/true);
    EXPECT_EQ(walks, 2);
  }
  for (const auto& [path, parameter] : net.named_parameters())
    expect_same_gradient(net, reference, path.c_str());
  EXPECT_TRUE(is_cut(net));
}

// When units are gathered, begin to be, and reduce. Catches: settings that change nothing.
TEST(FullyShard, UnitsAreGatheredWhereTheyAreNeeded) {
  const auto mesh = init_device_mesh({2});
  Net net;
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  auto root = fully_shard(net, mesh);
  init(net);
  const auto gathered = [&](size_t i) { return blocks[i].unit()->buffer()->is_gathered(); };
  std::vector<bool> seen;  // block 1 begun in block 0's forward, and block 0 in block 1's backward
  net.each[0]->a->register_forward_hook(
      [&](nn::Module&, const Tensors&, at::Tensor&) { seen.push_back(blocks[1].unit()->is_gathering()); });
  net.each[1]->a->register_forward_hook([&](nn::Module&, const Tensors&, at::Tensor& inside) {
    inside.register_hook([&](const at::Tensor&) {
      seen.push_back(blocks[0].unit()->is_gathering());
      return at::Tensor();
    });
  });
  const auto pass = [&] {
    seen.clear();
    const auto hidden = (*net.each[0])((*net.first)(batch(mesh, 1)));
    hidden.register_hook([&](const at::Tensor&) {
      EXPECT_EQ(gathered(1), !blocks[1].unit()->settings.reshard_after_backward);
      EXPECT_TRUE(blocks[1].unit()->is_scattering()) << "reduces while others go on";
      return at::Tensor();
    });
    const auto loss = loss_of((*net.each[1])(hidden));
    for (const size_t i : {0, 1}) EXPECT_EQ(gathered(i), !blocks[i].unit()->reshards_after_forward());
    loss.backward();
    for (const size_t i : {0, 1}) EXPECT_EQ(gathered(i), !blocks[i].unit()->settings.reshard_after_backward);
  };
  pass();
  EXPECT_EQ(seen, (std::vector<bool>{false, false}));
  blocks[0].set_modules_to_forward_prefetch({blocks[1]});
  blocks[1].set_modules_to_backward_prefetch({blocks[0]});
  pass();
  EXPECT_EQ(seen, (std::vector<bool>{true, true}));
  root.set_reshard_after_forward(false, /*recurse=*/false);
  EXPECT_TRUE(blocks[0].unit()->reshards_after_forward());
  root.set_reshard_after_forward(false);
  pass();
  root.set_reshard_after_backward(false);
  pass();
  blocks[0].reshard();
  EXPECT_FALSE(gathered(0));
  blocks[0].unshard();
  EXPECT_TRUE(gathered(0));
}

// Catches: a None that means true or false for all; one that asks who was sharded last, and not who is
// outermost.
TEST(FullyShard, NothingSaidKeepsTheOutermostAfterItsForward) {
  const auto mesh = init_device_mesh({2});
  Net net;
  std::vector<FSDPModule> units;
  for (const auto& block : net.each)
    units.push_back(fully_shard(*block, mesh, {.reshard_after_forward = std::nullopt}));
  units.push_back(fully_shard(net, mesh, {.reshard_after_forward = std::nullopt}));
  init(net);
  const auto loss = loss_of(net(batch(mesh, 1)));
  for (const auto& unit : units)
    EXPECT_EQ(unit.unit()->buffer()->is_gathered(), unit.unit() == units.back().unit());
  loss.backward();
  for (const auto& unit : units) EXPECT_FALSE(unit.unit()->buffer()->is_gathered());
  units.back().set_reshard_after_forward(true);
  net(batch(mesh, 1));
  for (const auto& unit : units) EXPECT_FALSE(unit.unit()->buffer()->is_gathered());
}

// A module that calls itself; by hand, around a backward pass.
TEST(FullyShard, AModuleMayCallItself) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  auto root = shard(net, mesh);
  replicate(reference, mesh);
  for (auto* model : {&net, &reference}) {
    int depth = 0;
    auto& block = *model->each[0];
    const auto number =
        block.a->register_forward_hook([&](nn::Module&, const Tensors& in, at::Tensor& output) {
          if (depth++ == 0) output = output + (*block.a)(block(in[0]));
        });
    const auto loss = loss_of((*model)(parameter(batch(mesh, 1))));
    block.a->remove_hook(number);
    if (model == &net) root.unshard();
    loss.backward();
  }
  EXPECT_FALSE(is_cut(net)) << "unshard holds until reshard";
  EXPECT_TRUE(same(full_tensor(net.parameter("first.weight").detach()),
                   full_tensor(reference.parameter("first.weight").detach())));
  root.reshard();
  for (const auto& [path, parameter] : net.named_parameters())
    expect_same_gradient(net, reference, path.c_str());
}

// Prefetched, never used, and then written.
TEST(FullyShard, APrefetchThatNobodyNeedsIsWaitedFor) {
  const auto mesh = init_device_mesh({2});
  Net net;
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  fully_shard(net, mesh);
  init(net);
  blocks[0].set_modules_to_forward_prefetch({blocks[1]});
  blocks[1].set_modules_to_backward_prefetch({blocks[0]});
  checks_in_flight = true;  // what is sent is looked at
  const auto write = [&] {
    const at::NoGradGuard no_grad;
    for (auto parameter : net.parameters()) parameter.mul_(2);
  };
  const auto x = (*net.first)(batch(mesh, 1)).detach();
  {
    const at::NoGradGuard no_grad;
    (*net.each[0])(x);
  }
  write();
  loss_of((*net.each[1])(x)).backward();
  EXPECT_FALSE(blocks[0].unit()->is_gathering());
  write();
  EXPECT_NO_THROW((*net.each[0])(x));
  net.each[0]->a->register_forward_pre_hook(
      [](nn::Module&, Tensors&) { throw std::runtime_error("a hook"); });
  EXPECT_THROW((*net.each[0])(x), std::runtime_error);
  EXPECT_FALSE(blocks[0].unit()->buffer()->is_gathered());
  EXPECT_FALSE(blocks[1].unit()->is_gathering());
  EXPECT_NO_THROW(write());
  checks_in_flight = false;
}

// Catches: a write to what is gathered that is lost without a word, for another unit's prefetch gathers anew.
TEST(FullyShard, APrefetchLosesNoWrite) {
  const auto mesh = init_device_mesh({2});
  Net net;
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  init(net);
  blocks[0].set_modules_to_forward_prefetch({blocks[1]});
  blocks[1].set_modules_to_backward_prefetch({blocks[0]});
  const auto expect_lost = [&](size_t i, const std::function<void()>& use) {
    blocks[i].unshard();
    at::Tensor(net.each[i]->parameter("b.weight").detach()).mul_(2);
    EXPECT_NE(error_of(use).find("'b.weight' was written while it was gathered"), std::string::npos);
    EXPECT_TRUE(is_cut(*net.each[i]));
  };
  const auto x = distribute_tensor(values({2, 6}, 1), mesh, {Replicate{}});
  expect_lost(1, [&] { (*net.each[0])(x); });
  const auto loss = loss_of((*net.each[1])(x));
  expect_lost(0, [&] { loss.backward(); });
}

// Frozen, and trained again, while it is gathered.
TEST(FullyShard, RequiresGradIsAskedAtEachCall) {
  const auto mesh = init_device_mesh({2});
  Net net;
  shard(net, mesh, {.reshard_after_forward = false});
  {
    const at::NoGradGuard no_grad;
    net(batch(mesh, 1));
  }
  for (auto parameter : net.parameters()) parameter.set_requires_grad(false);
  EXPECT_FALSE(net(batch(mesh, 1)).requires_grad());
  for (auto parameter : net.parameters()) parameter.set_requires_grad(true);
  EXPECT_TRUE(net(batch(mesh, 1)).requires_grad());
}

// The graph outlives the module, as torch's does.
TEST(FullyShard, ABackwardPassMayOutliveTheModule) {
  const auto mesh = init_device_mesh({2});
  auto net = std::make_unique<Net>();
  auto root = shard(*net, mesh);
  const auto x = parameter(batch(mesh, 1));
  const auto parameters = net->parameters();
  const auto loss = loss_of((*net)(x));
  net.reset();
  loss.backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_TRUE(parameters[0].grad().defined());
  EXPECT_THROW(root.set_requires_gradient_sync(false), Error);
}

// Catches: parameters of the pass that failed, or its gradients, in the next one.
TEST(FullyShard, GoesOnAfterAPassThatFailed) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  std::vector<FSDPModule> units;
  for (const auto& block : net.each) units.push_back(fully_shard(*block, mesh));
  units.push_back(fully_shard(net, mesh));
  init(net);
  replicate(reference, mesh);
  for (const bool early : {true, false}) {  // before any unit has reduced, and after one has
    const auto hidden = (*net.each[0])((*net.first)(batch(mesh, 1)));
    const auto output = (*net.each[1])(hidden)*2;
    (early ? output : hidden).register_hook([](const at::Tensor&) -> at::Tensor {
      throw std::runtime_error("a hook fails");
    });
    EXPECT_THROW(loss_of(output).backward(), std::exception);
    EXPECT_TRUE(is_cut(net)) << "gradients of what is gathered would be set to none";
    for (const auto& u : units) EXPECT_FALSE(u.unit()->buffer()->is_gathered() || u.unit()->is_gathering());
    net.zero_grad();
  }
  {
    const at::NoGradGuard no_grad;
    for (auto* model : {&net, &reference})
      for (auto& p : model->parameters()) p.mul_(0.5);
  }
  for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, 2))).backward();
  expect_same_parameters(net, reference);
}

TEST(FullyShard, ErrorsSayWhatToDo) {
  const auto mesh = init_device_mesh({2}), other = init_device_mesh({2});
  Net net;
  shard(net, mesh);
  EXPECT_NE(error_of([&] { fully_shard(net, mesh); }).find("sharded already"), std::string::npos);
  net.set_parameter("first.weight",
                    lockstep::parameter(distribute_tensor(values({6, 5}, 1), mesh, {Replicate{}})));
  EXPECT_NE(error_of([&] { net(batch(mesh, 1)); }).find("'first.weight' has been replaced"),
            std::string::npos);
  Net placed;
  nn::distribute_module(placed, other, {});
  EXPECT_NE(error_of([&] { fully_shard(placed, mesh); }).find("on a mesh"), std::string::npos);
  Net cut;
  nn::distribute_module(cut, mesh, {{"first.weight", {Shard{0}}}});
  EXPECT_NE(error_of([&] { fully_shard(cut, mesh); }).find("whole along"), std::string::npos);
  Net tied;
  tied.each[1]->set_parameter("a.weight", tied.each[0]->parameter("a.weight"));
  for (const auto& block : tied.each) fully_shard(*block, mesh);
  EXPECT_NE(error_of([&] { fully_shard(tied, mesh); }).find("are one"), std::string::npos);
  Net blocks;
  EXPECT_NE(error_of([&] {
              fully_shard(blocks, mesh, {.orig_param_policy = [](auto, auto&) { return int64_t{0}; }});
            }).find("at least 1"),
            std::string::npos);
}

// Catches: a hook of a plan, a unit or a block that the rows leave out, or tell in another order or of
// another module.
TEST(FullyShard, WhatIsDoneToAModelCanBePrinted) {
  const auto mesh = init_device_mesh({2, 2}, {"tp", "fsdp"});
  Net net;
  EXPECT_TRUE(net.hooks().empty());
  parallelize(net, mesh,
              colwise_parallel("blocks\\.\\d+\\.a", "tp") += rowwise_parallel("blocks\\.1\\.b", "tp"));
  checkpoint(*net.each[0]);
  fully_shard(*net.each[0], mesh);
  net.register_forward_hook([](nn::Module&, const Tensors&, at::Tensor&) {});
  const auto number =
      net.last->register_full_backward_hook([](nn::Module&, Tensors&, const at::Tensor&) {}, "counts");
  EXPECT_EQ(to_string(net.hooks()),
            "(the model) | forward | -\n"
            "blocks.0 | around | checkpoint\n"
            "blocks.0 | around | fully_shard\n"
            "blocks.0.a | forward pre | forward_pre:<in>:0:redist(->R,tp)\n"
            "blocks.1.a | forward pre | forward_pre:<in>:0:redist(->R,tp)\n"
            "blocks.1.b | forward pre | forward_pre:<in>:0:redist(->S-1,tp)\n"
            "blocks.1.b | forward | forward_post:<out>:redist(->R,tp)\n"
            "last | backward | counts\n");
  net.last->remove_hook(number);
  EXPECT_EQ(net.hooks().back().path, "blocks.1.b");
}

}  // namespace
}  // namespace lockstep
