// SPDX-License-Identifier: Apache-2.0
// fully_shard against the same modules whose parameters are replicated (data parallel), and against one
// device that adds up the ranks' batches: bit by bit.
#include "engine/fsdp/fully_shard.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/nn/layers.h"
#include "engine/nn/parallel.h"
#include "engine/optim/optimizer.h"
#include "engine/random/random.h"
#include "engine/values/error.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

using nn::Tensors;

// y = norm(x + b(tanh(a(x)))): two linears, one with a bias.
struct Block : nn::Module {
  explicit Block(int64_t size) {
    norm = add_child("norm", std::make_shared<nn::RMSNorm>(size));
    a = add_child("a", std::make_shared<nn::Linear>(size, 2 * size + 1));
    b = add_child("b", std::make_shared<nn::Linear>(2 * size + 1, size, false));
  }
  at::Tensor forward(const Tensors& in) override {
    const auto& x = in.at(0);
    return (*norm)(x + (*b)((*a)(x).tanh()));
  }
  std::shared_ptr<nn::RMSNorm> norm;
  std::shared_ptr<nn::Linear> a, b;
};

struct Net : nn::Module {
  explicit Net(int64_t size = 6, int64_t count = 2) {
    first = add_child("first", std::make_shared<nn::Linear>(5, size));
    blocks = add_child("blocks", std::make_shared<nn::Sequential>());
    for (int64_t i = 0; i < count; ++i) {
      each.push_back(std::make_shared<Block>(size));
      blocks->push_back(each.back());
    }
    last = add_child("last", std::make_shared<nn::Linear>(size, 3, false));
  }
  at::Tensor forward(const Tensors& in) override { return (*last)((*blocks)((*first)(in.at(0)))); }
  std::shared_ptr<nn::Linear> first, last;
  std::shared_ptr<nn::Sequential> blocks;
  std::vector<std::shared_ptr<Block>> each;
};

at::Tensor values(at::IntArrayRef shape, uint64_t seed) {
  return at::randn(shape, at::detail::createCPUGenerator(seed), at::kFloat);
}

void init(nn::Module& module) {
  manual_seed(3);
  nn::reset_parameters(module);
}

FSDPModule shard(Net& net, const MeshInWorld& mesh, const FullyShardOptions& options = {}) {
  for (const auto& block : net.each) fully_shard(*block, mesh, options);
  auto root = fully_shard(net, mesh, options);
  init(net);
  return root;
}

void replicate(Net& net, const MeshInWorld& mesh) {
  nn::distribute_module(net, mesh, {});
  init(net);
}

at::Tensor batch(const MeshInWorld& mesh, uint64_t seed, int64_t each = 2) {
  return distribute_tensor(values({each * mesh.mesh.size(), 5}, seed), mesh,
                           Placements(static_cast<size_t>(mesh.mesh.ndim()), Shard{0}));
}

at::Tensor loss_of(const at::Tensor& output) {
  return (output * output).sum();
}

::testing::AssertionResult same(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || !same_bits(a, b)) return ::testing::AssertionFailure() << a << "\nnot\n" << b;
  return ::testing::AssertionSuccess();
}

void expect_same_parameters(const nn::Module& a, const nn::Module& b) {
  const auto of_a = a.named_parameters(), of_b = b.named_parameters();
  ASSERT_EQ(of_a.size(), of_b.size());
  for (size_t i = 0; i < of_a.size(); ++i) {
    SCOPED_TRACE(of_a[i].first);
    const auto &x = of_a[i].second, &y = of_b[i].second;
    EXPECT_TRUE(same(full_tensor(x.detach()), full_tensor(y.detach())));
    ASSERT_EQ(x.grad().defined(), y.grad().defined());
    if (x.grad().defined()) {
      EXPECT_TRUE(same(full_tensor(x.grad()), full_tensor(y.grad())));
    }
  }
}

bool is_cut(const nn::Module& module) {
  for (const auto& [path, parameter] : module.named_parameters())
    if (to_string(placements(parameter)).find('G') == std::string::npos) return false;
  return true;
}

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

// One device that takes the ranks' batches one after the other, adds up their gradients and divides once.
void accumulate(nn::Module& plain, const at::Tensor& whole, int64_t ranks, int64_t each) {
  for (int64_t r = 0; r < ranks; ++r) loss_of(plain.call({whole.narrow(0, r * each, each)})).backward();
  for (auto& parameter : plain.parameters()) parameter.mutable_grad().div_(static_cast<double>(ranks));
}

// Catches: a fold in another order, a division before it, or one for each rank.
TEST(FullyShard, IsOneDeviceThatAddsUpTheRanksBatches) {
  for (const int64_t ranks : {2, 3, 4, 5, 8}) {
    SCOPED_TRACE(ranks);
    const auto mesh = init_device_mesh({ranks});
    Net net, plain;
    auto root = shard(net, mesh);
    root.set_gradient_divide_factor(static_cast<double>(ranks));
    nn::reset_parameters(plain);
    for (const auto& [path, parameter] : net.named_parameters())
      plain.set_parameter(path, full_tensor(parameter.detach()).clone().requires_grad_());
    const auto x = values({2 * ranks, 5}, 1);
    loss_of(net(distribute_tensor(x, mesh, {Shard{0}}))).backward();
    accumulate(plain, x, ranks, 2);
    for (const auto& [path, parameter] : net.named_parameters())
      EXPECT_TRUE(same(full_tensor(parameter.grad()), plain.parameter(path).grad())) << path;
  }
}

// Catches: a reduction in between, a term that the last one leaves out, gradients that stay.
TEST(FullyShard, AddsUpWithoutSync) {
  const auto mesh = init_device_mesh({3});
  Net net, reference;
  auto root = shard(net, mesh);
  replicate(reference, mesh);
  Tensors losses;
  for (const bool last : {false, false, true}) {
    root.set_requires_gradient_sync(last);
    loss_of(net(batch(mesh, last ? 2 : losses.size()))).backward();
    EXPECT_EQ(net.parameter("first.weight").grad().defined(), last);
    losses.push_back(loss_of(reference(batch(mesh, last ? 2 : losses.size()))));
  }
  // Each rank's terms are added up first.
  Tensors terms;
  const auto leaves = reference.parameters();
  for (const auto& leaf : leaves) ASSERT_TRUE(leaf.requires_grad());
  size_t i = 0;
  const auto of_sum = torch::autograd::grad({losses[0] + losses[1] + losses[2]}, leaves);
  for (const auto& [path, parameter] : net.named_parameters()) {
    const auto expected = full_tensor(of_sum[i++]);
    EXPECT_TRUE(at::allclose(full_tensor(parameter.grad()), expected, 1e-4, 1e-5)) << path;
  }
}

// Gradients of two passes with sync are added up as they are, cut.
TEST(FullyShard, AddsUpAcrossPasses) {
  const auto mesh = init_device_mesh({3});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  for (uint64_t pass = 0; pass < 2; ++pass)
    for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, pass))).backward();
  expect_same_parameters(net, reference);
}

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
    EXPECT_FALSE(is_cut(net)) << "resharded after forward";
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
  reference.set_parameter("blocks.1.a.weight", tied);
  const auto ignored =
      lockstep::parameter(distribute_tensor(net.parameter("last.weight").detach(), mesh, {Replicate{}}));
  net.set_parameter("last.weight", ignored);
  const auto root = fully_shard(net, mesh, {.ignored_params = {ignored}});
  EXPECT_EQ(root.plan().intervals.size(), 9u);  // 11 less one ignored and one shared
  EXPECT_TRUE(net.parameter("blocks.0.a.weight").is_same(net.parameter("blocks.1.a.weight")));
  EXPECT_TRUE(net.parameter("last.weight").is_same(ignored));
  for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, 1))).backward();
  EXPECT_FALSE(net.parameter("first.bias").grad().defined());
  at::Tensor(reference.parameter("first.bias")).mutable_grad() = at::Tensor();
  expect_same_parameters(net, reference);
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

// Catches: parameters of the pass that failed, or its gradients, in the next one.
TEST(FullyShard, GoesOnAfterAPassThatFailed) {
  const auto mesh = init_device_mesh({2});
  Net net, reference;
  shard(net, mesh);
  replicate(reference, mesh);
  const auto output = net(batch(mesh, 1));
  const auto hidden = output * 2;
  hidden.register_hook([](const at::Tensor&) -> at::Tensor { throw std::runtime_error("a hook fails"); });
  EXPECT_THROW(loss_of(hidden).backward(), std::exception);
  net.zero_grad();
  {
    const at::NoGradGuard no_grad;
    for (auto* model : {&net, &reference})
      for (auto& p : model->parameters()) p.mul_(0.5);
  }
  for (auto* model : {&net, &reference}) loss_of((*model)(batch(mesh, 2))).backward();
  expect_same_parameters(net, reference);
}

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
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
  Net blocks;
  EXPECT_NE(error_of([&] {
              fully_shard(blocks, mesh, {.orig_param_policy = [](auto, auto&) { return int64_t{0}; }});
            }).find("at least 1"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
