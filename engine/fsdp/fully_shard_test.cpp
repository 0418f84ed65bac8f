// SPDX-License-Identifier: Apache-2.0
// fully_shard against the same modules whose parameters are replicated (data parallel): bit by bit.
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <limits>

#include "engine/fsdp/held_memory.h"
#include "engine/fsdp/testing.h"
#include "engine/fsdp/unit.h"
#include "engine/optim/optimizer.h"

namespace lockstep {
namespace {

struct Setting {
  std::vector<int64_t> mesh;
  bool reshard_after_forward;
};
const std::vector<Setting> kSettings = {{{1}, true},  {{2}, true},    {{3}, true},    {{5}, true},
                                        {{2}, false}, {{2, 2}, true}, {{2, 3}, false}};

// Catches: a gradient that is lost, added twice or comes to another parameter; values of another step in
// forward or backward; an update of what is gathered.
TEST(FullyShard, TrainsAsReplicatedParametersDo) {
  for (const auto& setting : kSettings) {
    SCOPED_TRACE(concat("mesh ", at::IntArrayRef(setting.mesh), " ", setting.reshard_after_forward));
    const auto mesh = init_device_mesh(setting.mesh);
    Net net, reference;
    shard(net, mesh, {.reshard_after_forward = setting.reshard_after_forward});
    replicate(reference, mesh);
    expect_same_parameters(net, reference);
    optim::AdamW update(net.parameters()), reference_update(reference.parameters());
    for (uint64_t step = 0; step < 3; ++step) {
      const auto x = batch(mesh, step);
      for (auto* model : {&net, &reference}) {
        model->zero_grad();
        loss_of((*model)(x)).backward();
      }
      EXPECT_TRUE(is_cut(net));
      // Along two mesh dimensions the order is nested otherwise than that of replicas.
      if (setting.mesh.size() == 1) expect_same_parameters(net, reference);
      update.step();
      reference_update.step();
    }
    EXPECT_TRUE(is_cut(net));
  }
}

// Optimizers of libtorch know nothing of parts. Catches: a step that gathers, or moves what it writes.
TEST(FullyShard, StockOptimizersStepOnTheParts) {
  const auto mesh = init_device_mesh({3});
  const auto train = [&](Net& net, bool adam) {
    std::unique_ptr<torch::optim::Optimizer> update;
    if (adam)
      update = std::make_unique<torch::optim::AdamW>(net.parameters(), torch::optim::AdamWOptions(0.01));
    else
      update =
          std::make_unique<torch::optim::SGD>(net.parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    for (uint64_t step = 0; step < 3; ++step) {
      update->zero_grad();
      loss_of(net(batch(mesh, step))).backward();
      update->step();
    }
  };
  for (const bool adam : {true, false}) {
    Net net, reference;
    shard(net, mesh);
    replicate(reference, mesh);
    train(net, adam);
    train(reference, adam);
    expect_same_parameters(net, reference);
    EXPECT_TRUE(is_cut(net));
  }
}

// libtorch's own, on values for which every sum is exact. Catches: a norm of one rank's parts, or of ranks
// that have some alone, and gradients of which only some are scaled.
TEST(FullyShard, StockClipGradNormSeesAllParts) {
  struct Scales : nn::Module {
    Scales() {
      add_parameter("a", {7}, at::kFloat);
      add_parameter("b", {3, 5}, at::kFloat);
    }
    at::Tensor forward(const Tensors& in) override {
      const auto &x = in.at(0), of_b = x.narrow(1, 7, 15).reshape({-1, 3, 5});
      return (x.narrow(1, 0, 7) * parameter("a")).sum(1) + (of_b * parameter("b")).sum({1, 2});
    }
  };
  for (const int64_t ranks : {1, 2, 3, 8})  // the buffer has 24 elements: five of eight ranks have none
    for (const double order : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
      const auto mesh = init_device_mesh({ranks});
      Scales sharded, plain;
      for (auto* model : {&sharded, &plain}) init(*model);
      fully_shard(sharded, mesh);
      const auto x = at::arange(22 * 24, at::kFloat).reshape({24, 22}).remainder(7) - 3;
      sharded(distribute_tensor(x, mesh, {Shard{0}})).sum().backward();
      plain(x).sum().backward();
      const auto clip = [&](const nn::Module& model) {
        return torch::nn::utils::clip_grad_norm_(model.parameters(), 0.5, order);
      };
      EXPECT_EQ(clip(sharded), clip(plain)) << ranks << " ranks, norm " << order;
      for (const auto& [path, parameter] : plain.named_parameters())
        EXPECT_TRUE(same(full_tensor(sharded.parameter(path).grad()), parameter.grad())) << path;
      EXPECT_TRUE(is_cut(sharded));
    }
}

// Catches: a gradient for what is frozen, a shared parameter held twice, an ignored one that is cut.
TEST(FullyShard, FrozenSharedAndIgnoredParameters) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  nn::reset_parameters(net);
  nn::reset_parameters(reference);
  for (auto* model : {&net, &reference}) {
    for (const auto& [path, value] : model->named_parameters())
      model->set_parameter(path, values(value.sizes(), std::hash<std::string>()(path)).requires_grad_());
    model->set_parameter("blocks.1.a.weight", model->parameter("blocks.0.a.weight"));
    at::Tensor(model->parameter("first.bias")).set_requires_grad(false);
  }
  nn::distribute_module(reference, mesh, {});
  const auto tied = reference.parameter("blocks.0.a.weight");
  EXPECT_TRUE(reference.parameter("blocks.1.a.weight").is_same(tied));
  const auto ignored =
      lockstep::parameter(distribute_tensor(net.parameter("last.weight").detach(), mesh, {Replicate{}}));
  net.set_parameter("last.weight", ignored);
  const auto root = fully_shard(net, mesh, {.ignored_params = {ignored}});
  EXPECT_EQ(root.plan().intervals.size(), 9u);  // 11 less one ignored and one shared
  EXPECT_TRUE(net.parameter("blocks.0.a.weight").is_same(net.parameter("blocks.1.a.weight")));
  EXPECT_TRUE(net.parameter("last.weight").is_same(ignored));
  for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, 1))).backward();
  EXPECT_FALSE(net.parameter("first.bias").grad().defined());
  EXPECT_FALSE(reference.parameter("first.bias").grad().defined());
  expect_same_parameters(net, reference);
}

// Catches: another mesh dimension, a buffer that stays plain.
TEST(FullyShard, TheLastMeshDimensionCutsUnlessNamed) {
  const auto mesh = init_device_mesh({2, 3}, {"dp", "fsdp"});
  struct WithBuffer : nn::Module {
    WithBuffer() {
      add_parameter("weight", {6}, at::kFloat);
      add_buffer("mask", [](at::Device device) { return at::ones({6}, at::TensorOptions().device(device)); });
    }
    at::Tensor forward(const Tensors& in) override { return in.at(0) * parameter("weight") * buffer("mask"); }
  };
  WithBuffer last, first;
  fully_shard(last, mesh);
  fully_shard(first, mesh, {.mesh_dim = "dp"});
  EXPECT_EQ(to_string(placements(last.parameter("weight"))), "[R,G:1/0/0]");
  EXPECT_EQ(to_string(placements(first.parameter("weight"))), "[G:1/0,R]");
  EXPECT_EQ(to_string(placements(last.buffer("mask"))), "[R,R]");
}

// Blocks that no rank cuts, as asked for by parameter.
TEST(FullyShard, KeepsBlocksWhole) {
  const auto mesh = init_device_mesh({3});
  Net net(8);
  shard(net, mesh, {.orig_param_policy = [](std::string_view path, const at::Tensor& p) {
          return path.ends_with("weight") && p.dim() == 2 ? 4 * p.size(1) : int64_t{1};
        }});
  const auto& weight = net.parameter("blocks.0.a.weight");  // 17 x 8: blocks of 32
  for (const auto& local : local_tensors(weight))
    EXPECT_TRUE(local.numel() % 32 == 0 || local.numel() % 32 == 8);
}

// Catches: a row that two ranks have parts of, though shard_placement_fn says Shard(0); one of another
// dimension that is taken for rows; blocks of both, of which one is cut.
TEST(FullyShard, CutsRowsWhereToldShard0) {
  const auto mesh = init_device_mesh({2, 4}, {"tp", "fsdp"});
  // Whether every rank's part is of whole blocks.
  const auto keeps = [&](int64_t block, FullyShardOptions options, Placement along_tp = Replicate{}) {
    const auto linear = std::make_shared<nn::Linear>(50, 100, /*bias=*/true);
    nn::distribute_module(*linear, mesh, {{"weight", {along_tp, Replicate{}}}});
    fully_shard(*linear, mesh, std::move(options));
    const auto& parts = local_tensors(linear->parameter("weight"));
    return std::all_of(parts.begin(), parts.end(), [&](auto& part) { return part.numel() % block == 0; });
  };
  const auto rows = [](const at::Tensor& t) -> std::optional<Placement> {
    if (t.dim() == 2) return Shard{-2};
    return std::nullopt;
  };
  const auto blocks = [](std::string_view, const at::Tensor&) { return int64_t{4}; };
  EXPECT_FALSE(keeps(50, {}));
  EXPECT_TRUE(keeps(50, {.shard_placement_fn = rows}));
  EXPECT_TRUE(keeps(50, {.shard_placement_fn = rows}, Shard{0}));
  EXPECT_FALSE(keeps(25, {}, Shard{1}));
  EXPECT_TRUE(keeps(25, {.shard_placement_fn = rows}, Shard{1}));
  EXPECT_FALSE(keeps(100, {.orig_param_policy = blocks}));
  EXPECT_TRUE(keeps(100, {.orig_param_policy = blocks, .shard_placement_fn = rows}));
  for (const Placement& wrong : {Placement(Shard{1}), Placement(Replicate{}), Placement(Shard{-1})}) try {
      keeps(1, {.shard_placement_fn = [&](auto&) { return std::optional(wrong); }});
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("say Shard(0), for whole rows, or nothing"), std::string::npos)
          << e.what();
    }
}

// Catches: parameters of the step before, kept among neighbours; a number that leaves some out.
TEST(FullyShard, ReshardsAmongAsManyAsAreNamed) {
  const auto mesh = init_device_mesh({4});
  Net net, reference;
  shard(net, mesh, {.reshard_after_forward = 2});
  replicate(reference, mesh);
  for (uint64_t round = 0; round < 3; ++round) {
    for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, round))).backward();
    net(batch(mesh, 7));  // without a backward pass
    expect_same_parameters(net, reference);
    const at::NoGradGuard no_grad;
    for (auto* model : {&net, &reference})
      for (auto& parameter : model->parameters()) parameter.mul_(0.5);
  }
  for (const int among : {-2, 0, 3, 8}) {
    Net other;
    EXPECT_THROW(fully_shard(other, mesh, {.reshard_after_forward = among}), Error) << among;
  }
}

// Catches: a unit that keeps all after its forward, or nothing, though it is to keep its part among two;
// among one, whose part is all, or among all, whose part is the shard, taken for something else.
TEST(FullyShard, KeepsItsPartAmongAsManyAsAreNamed) {
  const auto mesh = init_device_mesh({4});
  for (const auto& [reshard, kept] :
       {std::pair<ReshardAfterForward, int64_t>(true, 0), std::pair<ReshardAfterForward, int64_t>(2, 2),
        std::pair<ReshardAfterForward, int64_t>(false, 4), std::pair<ReshardAfterForward, int64_t>(1, 4),
        std::pair<ReshardAfterForward, int64_t>(4, 0)}) {
    nn::Linear linear(50, 100);
    auto unit = fully_shard(linear, mesh, {.reshard_after_forward = reshard});
    init(linear);
    const auto memory = std::make_shared<fsdp::HeldMemory>();
    unit.watch_memory(memory);
    const auto output = linear(distribute_tensor(values({4, 50}, 1), mesh, {Shard{0}}));
    memory->take_peak_bytes();
    const int64_t shard = unit.plan().shard_size * 4;
    EXPECT_EQ(memory->take_peak_bytes(), PerRank<int64_t>(4, shard + kept * shard));
  }
}

// Prefetched parameters are waited for where they are needed, or where nobody needs them.
TEST(FullyShard, PrefetchChangesNoBit) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  std::vector<FSDPModule> blocks;
  for (const auto& block : net.each) blocks.push_back(fully_shard(*block, mesh));
  auto root = fully_shard(net, mesh);
  init(net);
  replicate(reference, mesh);
  root.set_modules_to_forward_prefetch(blocks);
  blocks[1].set_modules_to_backward_prefetch({blocks[0]});
  for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, 1))).backward();
  expect_same_parameters(net, reference);
}

// A module that stands in two places is one unit. Catches: two that are said to share its parameters.
TEST(FullyShard, AModuleMayStandTwice) {
  const auto mesh = init_device_mesh({2});
  const auto make = [&](bool shards) {
    auto model = std::make_shared<nn::Sequential>();
    const auto twice = std::make_shared<nn::Linear>(4, 4, true);
    for (const auto& module : {twice, std::make_shared<nn::Linear>(4, 4, true), twice})
      model->push_back(module);
    if (shards)
      fully_shard(*twice, mesh), fully_shard(*model, mesh);
    else
      nn::distribute_module(*model, mesh, {});
    manual_seed(1);
    nn::reset_parameters(*model);
    return model;
  };
  const auto net = make(true), reference = make(false);
  EXPECT_EQ(net->parameters().size(), 4);
  for (const auto& model : {net, reference})
    loss_of((*model)(distribute_tensor(values({4, 4}, 3), mesh, {Shard{0}}))).backward();
  expect_same_parameters(*net, *reference);
}

// Catches: a setting that misses the units within, or reaches them with recurse = false.
TEST(FullyShard, SettingsReachUnitsWithin) {
  const auto mesh = init_device_mesh({2});
  for (const bool recurse : {true, false}) {
    Net net;
    auto within = fully_shard(*net.each[0], mesh), root = fully_shard(net, mesh);
    root.set_requires_gradient_sync(false, recurse);
    root.set_requires_all_reduce(false, recurse);
    root.set_reshard_after_forward(false, recurse);
    root.set_reshard_after_backward(false, recurse);
    root.set_gradient_divide_factor(8, recurse);
    for (const auto& [unit, is_set] : {std::pair(root, true), std::pair(within, recurse)}) {
      const auto& settings = unit.unit()->settings;
      EXPECT_EQ(settings.requires_gradient_sync, !is_set);
      EXPECT_EQ(settings.requires_all_reduce, !is_set);
      EXPECT_EQ(settings.reshard_after_forward, !is_set);
      EXPECT_EQ(settings.reshard_after_backward, !is_set);
      EXPECT_EQ(settings.gradient_divide_factor, is_set ? 8 : 1);
    }
  }
}

// Catches: a parameter of two modules that are sharded by themselves, of which each cuts and reduces its own.
TEST(FullyShard, WhatTwoUnitsShareIsRefused) {
  const auto mesh = init_device_mesh({2});
  for (const bool both : {true, false}) {
    Net net;
    nn::reset_parameters(net);
    net.set_parameter("blocks.1.a.weight", net.parameter("blocks.0.a.weight"));
    fully_shard(*net.each[0], mesh);
    if (both) fully_shard(*net.each[1], mesh);
    EXPECT_THROW(fully_shard(net, mesh), Error) << both;
  }
  Net net;  // shared after it was cut
  fully_shard(*net.each[0], mesh);
  net.set_parameter("blocks.1.a.weight", net.parameter("blocks.0.a.weight"));
  EXPECT_THROW(fully_shard(net, mesh), Error);
  nn::Sequential model;  // a module of one that is sharded by itself, and beside it
  const auto linear = std::make_shared<nn::Linear>(4, 4);
  const auto within = std::make_shared<nn::Sequential>();
  within->push_back(linear);
  model.push_back(within);
  model.push_back(linear);
  model.push_back(std::make_shared<nn::Linear>(4, 4));
  fully_shard(*within, mesh);
  EXPECT_THROW(fully_shard(model, mesh), Error);
}

struct Table : nn::Module {
  Table() {
    add_parameter("weight", {4}, at::kFloat);
    add_buffer("table", [](c10::Device device) { return at::ones({4}, at::device(device)); });
  }
  at::Tensor forward(const Tensors& in) override { return in.at(0) * parameter("weight") * buffer("table"); }
};

// Catches: a buffer that units share, and that is one for each of them after they are sharded.
TEST(FullyShard, BuffersStayShared) {
  const auto mesh = init_device_mesh({2});
  for (const int how : {0, 1, 2, 3}) {
    nn::Sequential model;
    std::vector<std::shared_ptr<Table>> each;
    for (int i = 0; i < 3; ++i) {
      each.push_back(std::make_shared<Table>());
      model.push_back(each.back());
    }
    for (const char* path : {"1.table", "2.table"}) model.set_buffer(path, model.buffer("0.table"));
    for (int i = 0; i < 2; ++i)
      if ((how >> i & 1) != 0) fully_shard(*each[static_cast<size_t>(i)], mesh);
    fully_shard(model, mesh);
    EXPECT_TRUE(is_dtensor(model.buffer("0.table")));
    EXPECT_EQ(model.named_buffers().size(), 1) << how;
  }
}

}  // namespace
}  // namespace lockstep
