// SPDX-License-Identifier: Apache-2.0
// libtorch as it is shipped, on DTensors: torch::nn modules, torch::optim optimizers and
// torch::nn::utils::clip_grad_norm_, step by step against the same training on plain tensors, as bits.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>
#include <sstream>

#include "engine/tensor/dtensor.h"
#include "engine/tensor/testing.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

namespace F = torch::nn::functional;
using torch::nn::Sequential;
using Tensors = std::vector<at::Tensor>;

// --- parameters become distributed ---

// A torch module keeps each parameter in its dictionary and as a member: both are replaced.
struct Open : torch::nn::Module {
  static auto& dictionary(torch::nn::Module& module) { return module.*(&Open::parameters_); }
};

template <class Impl>
void take(torch::nn::Module& module) {
  auto* impl = dynamic_cast<Impl*>(&module);
  if (impl == nullptr) return;
  impl->weight = Open::dictionary(module)["weight"];
  if constexpr (requires { impl->bias; }) impl->bias = Open::dictionary(module)["bias"];
}

using PlacementOf = std::function<Placements(const std::string& path)>;

// @post every parameter of the model is a leaf DTensor of the same values.
void distribute(Sequential& model, const MeshInWorld& mesh, const PlacementOf& placement_of) {
  for (auto& module : model->named_modules()) {
    for (auto& own : Open::dictionary(*module.value()))
      if (own.value().defined())  // a bias that was not asked for is not
        own.value() = parameter(
            distribute_tensor(own.value().detach(), mesh, placement_of(module.key() + "." + own.key())));
    take<torch::nn::LinearImpl>(*module.value());
    take<torch::nn::LayerNormImpl>(*module.value());
    take<torch::nn::Conv2dImpl>(*module.value());
    take<torch::nn::EmbeddingImpl>(*module.value());
  }
}

// --- comparison ---

bool same_bits(const at::Tensor& plain, const at::Tensor& distributed) {
  const auto x = plain.detach().contiguous(), y = full_tensor(distributed).detach().contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// @param what the model and the step
void expect_same(Sequential& plain, Sequential& distributed, const std::string& what) {
  const auto mine = distributed->named_parameters();
  for (const auto& p : plain->named_parameters()) {
    const auto& other = mine[p.key()];
    EXPECT_TRUE(is_dtensor(other) && is_dtensor(other.grad())) << what << " " << p.key();
    EXPECT_TRUE(same_bits(p.value().grad(), other.grad())) << what << " gradient of " << p.key();
    EXPECT_TRUE(same_bits(p.value(), other)) << what << " " << p.key();
  }
}

// --- models ---

constexpr int64_t kBatch = 4, kClasses = 8;

struct Net {
  std::string name;
  std::function<Sequential()> make;
  at::Tensor input;
};

at::Tensor normal(at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(7));
}

std::vector<Net> nets() {
  using namespace torch::nn;
  const auto mlp = [] {
    return Sequential(Linear(6, 10), LayerNorm(LayerNormOptions({10})), GELU(), Linear(10, 8), Tanh(),
                      Linear(8, kClasses));
  };
  const auto convolutions = [] {
    return Sequential(Conv2d(Conv2dOptions(2, 4, 3).padding(1)), ReLU(), MaxPool2d(2),
                      Conv2d(Conv2dOptions(4, 3, 3).stride(1).bias(false)), ReLU(), AvgPool2d(2), Flatten(),
                      Linear(3, kClasses));
  };
  const auto tokens = [] {
    return Sequential(Embedding(11, 6), LayerNorm(LayerNormOptions({6})), Linear(6, kClasses));
  };
  return {{"mlp", mlp, normal({kBatch, 6})},
          {"convolutions", convolutions, normal({kBatch, 2, 8, 8})},
          {"adaptive",
           [] {
             return Sequential(Conv2d(Conv2dOptions(2, 4, 3).groups(2)), SiLU(), AdaptiveAvgPool2d(1),
                               Flatten(), Linear(4, kClasses));
           },
           normal({kBatch, 2, 8, 8})},
          {"embedding", tokens, at::tensor({3, 9, 3, 0}, at::kLong)}};
}

// --- one training, on plain tensors and on DTensors ---

struct Layout {
  std::vector<int64_t> mesh;
  const char* batch;
};
// Even, uneven and empty shards of four samples; two mesh dimensions on one; none.
const Layout kLayouts[] = {{{2}, "[S0]"},      {{3}, "[S0]"},     {{4}, "[S0]"}, {{2, 2}, "[S0,S0]"},
                           {{2, 2}, "[R,S0]"}, {{2, 2}, "[R,R]"}, {{3}, "[R]"}};

Placements replicated_on(const MeshInWorld& mesh) {
  return Placements(static_cast<size_t>(mesh.mesh.ndim()), Replicate{});
}

// All samples where the batch is replicated. Where it is sharded the gradient of a parameter is a sum across
// ranks, which may round in another order than the plain run's: there the loss ignores all samples but one,
// another in each step, so that one term of every such sum is not zero, and the sum is that term in any
// order.
at::Tensor targets(int64_t step, bool all) {
  const auto classes = at::arange(kBatch).mul(5).add(step).remainder(kClasses);
  return all ? classes : at::where(at::arange(kBatch).eq(step % kBatch), classes, -100);
}

struct Step {
  at::Tensor loss;
  double norm;
};

Step step(Sequential& model, torch::optim::Optimizer& optimizer, const at::Tensor& input,
          const at::Tensor& target) {
  optimizer.zero_grad();
  auto loss = F::cross_entropy(model->forward(input), target);
  loss.backward();
  const double norm = torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
  optimizer.step();
  return {loss, norm};
}

template <class Optimizer, class Options>
void expect_same_training(const Net& net, const Layout& layout, const Options& options) {
  const auto mesh = init_device_mesh(layout.mesh);
  const auto batch = parse_placements(layout.batch);
  const bool all = batch == replicated_on(mesh);
  torch::manual_seed(5);
  auto plain = net.make();
  torch::manual_seed(5);
  auto distributed = net.make();
  distribute(distributed, mesh, [&](const std::string&) { return replicated_on(mesh); });
  Optimizer a(plain->parameters(), options), b(distributed->parameters(), options);
  const auto placed = [&](const at::Tensor& t) { return distribute_tensor(t, mesh, batch); };
  for (int64_t i = 0; i < kBatch + 1; ++i) {
    const auto what = concat(net.name, " ", to_string(mesh.mesh), " ", layout.batch, " step ", i);
    const auto target = targets(i, all);
    const auto expected = step(plain, a, net.input, target);
    const auto actual = step(distributed, b, placed(net.input), placed(target));
    EXPECT_TRUE(same_bits(expected.loss, actual.loss)) << what;
    EXPECT_EQ(expected.norm, actual.norm) << what;
    expect_same(plain, distributed, what);
  }
}

// Catches: an op of these modules without a rule or with a wrong one, a gradient that misses a rank or counts
// one twice, an optimizer's state that is plain or placed otherwise, a norm of shards.
TEST(Unmodified, AdamWTrainsEveryNet) {
  for (const auto& net : nets())
    for (const auto& layout : kLayouts)
      expect_same_training<torch::optim::AdamW>(net, layout, torch::optim::AdamWOptions(1e-2));
}

// Catches: momentum's buffer, a detached clone, that is not the parameter's.
TEST(Unmodified, SgdTrainsEveryNet) {
  const auto options = torch::optim::SGDOptions(0.1);
  for (const auto& net : nets())
    for (const auto& layout : kLayouts) {
      expect_same_training<torch::optim::SGD>(net, layout, options);
      expect_same_training<torch::optim::SGD>(
          net, layout, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01).nesterov(true));
    }
}

// --- evaluation ---

// Catches: what cannot be done in InferenceMode with a tensor made outside of it: views, writes, composites
// that arrive whole.
TEST(Unmodified, EvaluationInInferenceMode) {
  for (const auto& net : nets())
    for (const auto& layout : kLayouts) {
      const auto mesh = init_device_mesh(layout.mesh);
      const auto what = concat(net.name, " ", to_string(mesh.mesh), " ", layout.batch);
      torch::manual_seed(5);
      auto plain = net.make();
      torch::manual_seed(5);
      auto distributed = net.make();
      distribute(distributed, mesh, [&](const std::string&) { return replicated_on(mesh); });
      const auto outside = distribute_tensor(net.input, mesh, parse_placements(layout.batch));
      const c10::InferenceMode evaluation;
      const auto inside = distribute_tensor(net.input, mesh, parse_placements(layout.batch));
      for (const auto& input : {outside, inside}) {
        const auto expected = plain->forward(net.input), actual = distributed->forward(input);
        EXPECT_TRUE(same_bits(expected, actual)) << what;
        EXPECT_TRUE(actual.is_inference()) << what;
        for (const auto& t : {input, actual}) {
          if (t.dim() < 2) continue;
          EXPECT_TRUE(same_bits(full_tensor(t).mT(), t.mT())) << what;
          EXPECT_TRUE(same_bits(full_tensor(t).expand_as(t), t.expand_as(t))) << what;
          auto copy = t.clone();
          EXPECT_TRUE(same_bits(full_tensor(t) + 1, copy.view(t.sizes()).add_(1))) << what;
          EXPECT_TRUE(same_bits(full_tensor(t) + 1, copy)) << what;
        }
      }
    }
}

// --- every sample, sums across ranks: whole numbers, in doubles, of which every partial sum is exact ---

at::Tensor whole(at::IntArrayRef shape, int64_t seed) {
  return at::arange(c10::multiply_integers(shape), at::kDouble)
      .add(seed)
      .mul(0.7390851)
      .sin()
      .mul(1.4)
      .round()
      .reshape(shape);
}

void make_whole(Sequential& model) {
  const torch::NoGradGuard guard;
  model->to(at::kDouble);
  int64_t seed = 0;
  for (auto& p : model->parameters()) p.copy_(whole(p.sizes(), ++seed));
}

// Numbers begin as -1, 0 and 1. The learning rate is a power of two, so they stay multiples of one; in three
// steps of two layers, or two of three, all that a gradient is made of has fewer than 40 bits of a double's
// 53. AdamW divides, so there one step.
template <class Optimizer, class Options>
void expect_same_sums(const Net& net, const Layout& layout, const PlacementOf& placement_of,
                      const Options& options, int64_t steps) {
  const auto mesh = init_device_mesh(layout.mesh);
  auto plain = net.make(), distributed = net.make();
  make_whole(plain);
  make_whole(distributed);
  distribute(distributed, mesh, placement_of);
  Optimizer a(plain->parameters(), options), b(distributed->parameters(), options);
  const auto placed = [&](const at::Tensor& t) {
    return distribute_tensor(t, mesh, parse_placements(layout.batch));
  };
  for (int64_t i = 0; i < steps; ++i) {
    const auto input = whole(net.input.sizes(), 100 + i), weight = whole({kBatch, kClasses}, 50 + i);
    a.zero_grad();
    b.zero_grad();
    (plain->forward(input) * weight).sum().backward();
    (distributed->forward(placed(input)) * placed(weight)).sum().backward();
    a.step();
    b.step();
    expect_same(plain, distributed, concat(net.name, " ", layout.batch, " step ", i));
  }
}

// Catches: a sum across ranks with a term lost or doubled where more than one is not zero; tensor parallel
// weights, whose optimizer states are shards.
TEST(Unmodified, WholeNumbersAreSummedExactly) {
  using namespace torch::nn;
  const Net mlp{"mlp", [] { return Sequential(Linear(6, 10), ReLU(), Linear(10, kClasses)); },
                at::empty({kBatch, 6})};
  const Net convolutions = {"convolutions",
                            [] {
                              return Sequential(Conv2d(Conv2dOptions(2, 4, 3).padding(1)), ReLU(),
                                                MaxPool2d(2), Conv2d(Conv2dOptions(4, 3, 3)), ReLU(),
                                                AvgPool2d(2), Flatten(), Linear(3, kClasses));
                            },
                            at::empty({kBatch, 2, 8, 8})};
  const auto sgd = torch::optim::SGDOptions(0.0625).momentum(0.5);
  const auto replicate = [](size_t n) {
    return [n](const std::string&) { return Placements(n, Replicate{}); };
  };
  // Megatron's cut along the second mesh dimension; the last bias is whole.
  const auto megatron = [](const std::string& path) {
    if (path.starts_with("0.")) return parse_placements("[R,S0]");
    return parse_placements(path == "2.weight" ? "[R,S1]" : "[R,R]");
  };
  const auto sharded = [](const std::string&) { return parse_placements("[S0]"); };
  for (const auto& [net, steps] : {std::pair(mlp, 3), std::pair(convolutions, 2)}) {
    for (const auto& layout : {Layout{{2}, "[S0]"}, Layout{{3}, "[S0]"}, Layout{{2, 2}, "[S0,S0]"}}) {
      const auto on_all = replicate(layout.mesh.size());
      expect_same_sums<torch::optim::SGD>(net, layout, on_all, sgd, steps);
      expect_same_sums<torch::optim::AdamW>(net, layout, on_all, torch::optim::AdamWOptions(1e-2), 1);
    }
    expect_same_sums<torch::optim::SGD>(net, {{3}, "[S0]"}, sharded, sgd, steps);
  }
  expect_same_sums<torch::optim::SGD>(mlp, {{2, 2}, "[S0,R]"}, megatron, sgd, 3);
  expect_same_sums<torch::optim::AdamW>(mlp, {{2, 2}, "[S0,R]"}, megatron, torch::optim::AdamWOptions(1e-2),
                                        1);
}

// --- the tensor itself ---

// Catches: a new tensor where libtorch returns the one that it is given, of which t_ then changes another's
// shape.
TEST(Unmodified, WhatReturnsItsTensorReturnsTheVeryTensor) {
  const std::vector<at::Tensor (*)(const at::Tensor&)> ops = {
      [](auto& x) { return at::lift_fresh(x); },
      [](auto& x) { return x.contiguous(); },
      [](auto& x) { return x.to(at::kFloat); },
      [](auto& x) { return x.type_as(x); },
      [](auto& x) { return x.to(x); },
      [](auto& x) { return at::positive(x); },
      [](auto& x) { return at::resolve_neg(x); },
      [](auto& x) { return at::real(x); },
      [](auto& x) {
        return x.sum_to_size({4, 2});
      },
      [](auto& x) { return at::atleast_2d(x); },
      [](auto& x) { return at::dropout(x, 0.5, false); },
      [](auto& x) { return x.to_dense(); },
      [](auto& x) { return x.expand_as(x); },
      [](auto& x) {
        return x.reshape({4, 2});
      }};
  const auto mesh = init_device_mesh({2});
  const auto plain = whole({4, 2}, 1);
  for (const auto& p : {Placement(Replicate{}), Placement(Shard{0}), Placement(Shard{1}),
                        Placement(Partial{}), Placement(RaggedShard{{0}, {3, 1}})})
    for (size_t i = 0; i < ops.size(); ++i) {
      const auto x = distribute_tensor(plain, mesh, {p});
      EXPECT_EQ(ops[i](x).is_same(x), ops[i](plain).is_same(plain)) << i << ' ' << to_string(p);
    }
  auto x = distribute_tensor(plain, mesh, {Shard{0}});
  at::lift_fresh(x).t_();
  EXPECT_TRUE(same_bits(plain.t(), x));
  EXPECT_EQ(to_string(placements(x)), "[S1]");
}

// --- saving ---

// Catches: a file of one rank's shard, or of garbage; an error that does not say what to do.
TEST(Unmodified, SavingNamesFullTensor) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(whole({4, 2}, 1), mesh, {Shard{0}});
  std::ostringstream out;
  EXPECT_NE(error_of([&] { torch::save(x, out); }).find("full_tensor()"), std::string::npos);
  Sequential model(torch::nn::Linear(2, 3));
  distribute(model, mesh, [](const std::string&) { return Placements{Replicate{}}; });
  EXPECT_NE(error_of([&] { torch::save(model, out); }).find("full_tensor()"), std::string::npos);
  std::stringstream file;
  torch::save(full_tensor(x), file);
  at::Tensor loaded;
  torch::load(loaded, file);
  EXPECT_TRUE(same_bits(loaded, x));
}

}  // namespace
}  // namespace lockstep
