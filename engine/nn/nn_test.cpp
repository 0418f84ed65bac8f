// SPDX-License-Identifier: Apache-2.0
// engine/nn on plain tensors against torch::nn, bit by bit; hooks, paths and replacement of parameters.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstring>

#include "engine/nn/blocks.h"
#include "engine/nn/distribute.h"
#include "engine/plan/parallelize.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

void expect_same_bits(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  ASSERT_EQ(a.scalar_type(), b.scalar_type());
  const auto x = a.detach().contiguous(), y = b.detach().contiguous();
  EXPECT_EQ(std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()), 0);
}

at::Tensor values(at::IntArrayRef shape) {
  return at::randn(shape, at::detail::createCPUGenerator(7));
}

// Catches: another fan, another formula or order of draws in the first values; a forward that is not torch's.
TEST(Layers, LinearIsTorchsFromTheSameStream) {
  for (const bool bias : {true, false}) {
    torch::manual_seed(3);
    torch::nn::Linear theirs(torch::nn::LinearOptions(5, 7).bias(bias));
    torch::manual_seed(3);
    Linear ours(5, 7, bias);
    reset_parameters(ours);
    expect_same_bits(ours.parameter("weight"), theirs->weight);
    if (bias) expect_same_bits(ours.parameter("bias"), theirs->bias);
    const auto x = values({3, 2, 5});
    expect_same_bits(ours(x), theirs(x));
  }
}

TEST(Layers, EmbeddingIsTorchsFromTheSameStream) {
  torch::manual_seed(4);
  torch::nn::Embedding theirs(11, 6);
  torch::manual_seed(4);
  Embedding ours(11, 6);
  reset_parameters(ours);
  expect_same_bits(ours.parameter("weight"), theirs->weight);
  const auto indices = at::arange(8).view({2, 4});
  expect_same_bits(ours(indices), theirs(indices));
}

TEST(Layers, LayerNormIsTorchs) {
  torch::nn::LayerNorm theirs(torch::nn::LayerNormOptions({6}));
  LayerNorm ours(6);
  reset_parameters(ours);
  const auto x = values({4, 6});
  expect_same_bits(ours(x), theirs(x));
}

// Catches: eps outside the root, a mean over the wrong dimension.
TEST(Layers, RMSNormIsItsFormula) {
  RMSNorm norm(6, 1e-5);
  reset_parameters(norm);
  const auto x = values({4, 6}).to(at::kDouble);
  norm.set_parameter("weight", values({6}));
  const auto expected = x / (x.pow(2).mean(-1, true) + 1e-5).sqrt() * norm.parameter("weight");
  EXPECT_LT((norm(x.to(at::kFloat)) - expected).abs().max().item<double>(), 1e-6);
}

// Catches: a Dropout that drops in evaluation, or does not scale in training.
TEST(Layers, DropoutFollowsTheMode) {
  Sequential model;
  model.push_back(std::make_shared<Dropout>(0.5));
  const auto x = at::ones({64});
  const auto y = model(x);
  EXPECT_TRUE(((y == 0) | (y == 2)).all().item<bool>());
  EXPECT_TRUE((y == 0).any().item<bool>());
  model.eval();
  expect_same_bits(model(x), x);
}

// Catches: a loss that is not the cross entropy, or a gradient that is not softmax minus one-hot.
TEST(Layers, CrossEntropyIsTorchsUpToRounding) {
  const auto logits = (values({4, 3, 9}) * 5).to(at::kDouble).requires_grad_();
  const auto targets = at::arange(12).remainder(9).view({4, 3});
  CrossEntropy loss(9);
  reset_parameters(loss);
  const auto ours = loss(logits, targets);
  const auto theirs = at::cross_entropy_loss(logits.view({12, 9}), targets.view({12}));
  EXPECT_NEAR(ours.item<double>(), theirs.item<double>(), 1e-13);
  const auto a = torch::autograd::grad({ours}, {logits}).at(0),
             b = torch::autograd::grad({theirs}, {logits}).at(0);
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-14);
}

AttentionOptions attention_options(int64_t hidden, int64_t heads, int64_t kv_heads) {
  return {.hidden = hidden, .heads = heads, .kv_heads = kv_heads, .max_sequence = 8};
}

// Catches: a wrong scale, a mask that is off by one. Torch's
// own attention, with its own causal mask and grouping, is the other side; position 0 alone would hide the
// rotation.
TEST(Blocks, AttentionCoreIsTorchsScaledDotProduct) {
  const auto o = attention_options(24, 6, 3);
  AttentionCore core(o);
  EXPECT_THROW(core(at::ones({})), Error);  // without values there is nothing to compute with
  reset_parameters(core);
  const auto q = values({2, 6, 5, 4}), k = values({2, 6, 5, 4}) + 0.5, v = values({2, 6, 5, 4}) * 2;
  const auto theirs = at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  EXPECT_LT((core(q, k, v) - theirs).abs().max().item<double>(), 1e-5);
}

// Rotary embedding depends on relative positions alone: with the same token everywhere, every position
// attends to equal values, so all outputs are one vector. And a later token never changes an earlier output.
// Catches: a rotation of v, a leak from the future. hidden 90 / heads 6 leaves one unrotated element a head.
TEST(Blocks, AttentionIsCausal) {
  for (const int64_t hidden : {24, 90}) {
    torch::manual_seed(1);
    Attention attention(attention_options(hidden, 6, 3));
    reset_parameters(attention);
    const auto x = values({1, 8, hidden});
    auto changed = x.clone();
    changed.narrow(1, 5, 3).mul_(-1);
    const auto before = attention(x), after = attention(changed);
    EXPECT_LT((before - after).narrow(1, 0, 5).abs().max().item<double>(), 1e-6);
    EXPECT_GT((before - after).narrow(1, 5, 3).abs().max().item<double>(), 1e-3);
  }
}

// The same by other means: pairs (i, i + half) of a head as complex numbers turned by position *
// base^(-i/half), key and value heads picked by h / group, one head after another.
at::Tensor attention_by_heads(const Attention& module, const at::Tensor& x, int64_t heads, int64_t kv_heads) {
  const int64_t size = x.size(1) / heads, half = size / 2, n = x.size(0);
  const auto angles =
      at::outer(at::arange(n, at::kDouble), at::pow(500000.0, -at::arange(half, at::kDouble) / half));
  const auto turn = at::polar(at::ones_like(angles), angles);
  const auto head = [&](const char* name, int64_t h) {
    return at::linear(x, module.parameter(name)).narrow(1, h * size, size);
  };
  const auto rotated = [&](const at::Tensor& y) {
    const auto z = at::complex(y.narrow(1, 0, half), y.narrow(1, half, half)) * turn;
    return at::cat({at::real(z), at::imag(z), y.narrow(1, 2 * half, size - 2 * half)}, 1);
  };
  Tensors outputs;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t group = h / (heads / kv_heads);
    const auto q = rotated(head("q_proj.weight", h)), k = rotated(head("k_proj.weight", group));
    const auto scores = q.mm(k.t()) / std::sqrt(static_cast<double>(size));
    const auto future = at::ones({n, n}, at::kBool).triu(1);
    outputs.push_back(scores.masked_fill(future, -1e300).softmax(1).mm(head("v_proj.weight", group)));
  }
  return at::linear(at::cat(outputs, 1), module.parameter("o_proj.weight"));
}

// Catches: a rotation by other pairs, frequencies or sign, groups that belong to other heads, a rotated v.
TEST(Blocks, AttentionIsItsFormula) {
  for (const int64_t hidden : {24, 90}) {
    auto o = attention_options(hidden, 6, 3);
    o.dtype = at::kDouble;
    Attention attention(o);
    reset_parameters(attention);
    const auto x = values({7, hidden}).to(at::kDouble) * 3;
    const auto y = attention(x.unsqueeze(0)).squeeze(0);
    EXPECT_LT((y - attention_by_heads(attention, x, 6, 3)).abs().max().item<double>(), 1e-12);
  }
}

// Catches: hooks in another order, a replaced input or output that is lost, a hook that cannot be removed.
TEST(Module, HooksRunInOrderAndMayReplace) {
  Linear linear(2, 2, false);
  reset_parameters(linear);
  std::string order;
  linear.register_forward_pre_hook(
      [&](Module&, Tensors& inputs) { order += "a", inputs[0] = inputs[0] * 2; });
  linear.register_forward_pre_hook([&](Module&, Tensors&) { order += "b"; });
  const auto number = linear.register_forward_hook([&](Module&, const Tensors& inputs, at::Tensor& output) {
    order += "c";
    output = output + inputs[0];
  });
  const auto x = values({1, 2});
  const auto plain = at::linear(x * 2, linear.parameter("weight"));
  expect_same_bits(linear(x), plain + x * 2);
  EXPECT_EQ(order, "abc");
  linear.remove_hook(number);
  expect_same_bits(linear(x), plain);
  EXPECT_THROW(linear.remove_hook(number), Error);
}

// Catches: names that are not torch's, own parameters after the children's.
TEST(Module, PathsAreThoseOfTorch) {
  Sequential model;
  model.push_back(std::make_shared<Linear>(3, 4));
  model.push_back(std::make_shared<Mlp>(4, 5));
  std::string paths;
  for (const auto& [path, tensor] : model.named_parameters()) paths += path + " ";
  EXPECT_EQ(paths, "0.weight 0.bias 1.gate_proj.weight 1.up_proj.weight 1.down_proj.weight ");
  EXPECT_EQ(model.parameter("1.down_proj.weight").size(1), 5);
  try {
    model.parameter("1.gate.weight");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("gate_proj, up_proj, down_proj"), std::string::npos) << e.what();
  }
}

// As torch's. Catches: a parameter that an optimizer, a norm or a zero_grad meets twice; layers that are
// given memory, or are distributed, and share nothing any more; one that thaws.
TEST(Module, WhatLayersShareIsOneParameter) {
  Sequential model;
  for (int i = 0; i < 3; ++i) model.push_back(std::make_shared<Linear>(3, 3, false));
  model.set_parameter("2.weight", model.parameter("0.weight"));
  const auto is_shared = [&] { return model.parameter("2.weight").is_same(model.parameter("0.weight")); };
  std::string paths;
  for (const auto& [path, tensor] : model.named_parameters()) paths += path + " ";
  EXPECT_EQ(paths, "0.weight 1.weight ");
  EXPECT_EQ(model.parameters().size(), 2);
  EXPECT_EQ(model.parameters_with_paths()[0].paths, (std::vector<std::string>{"0.weight", "2.weight"}));
  at::Tensor(model.parameter("1.weight")).set_requires_grad(false);
  reset_parameters(model);
  EXPECT_TRUE(is_shared() && !model.parameter("0.weight").is_meta());
  EXPECT_FALSE(model.parameter("1.weight").requires_grad());
  const auto mesh = init_device_mesh({2});
  EXPECT_THROW(distribute_module(model, mesh, {{"0.weight", {Shard{0}}}, {"2.weight", {Shard{1}}}}), Error);
  distribute_module(model, mesh, {{"2.weight", {Shard{1}}}});
  EXPECT_TRUE(is_shared());
  EXPECT_EQ(to_string(placements(model.parameter("0.weight"))), "[S1]");
  EXPECT_EQ(to_string(placements(model.parameter("1.weight"))), "[R]");
}

class Scale : public Module {
 public:
  Scale() {
    add_parameter("by", {2}, at::kFloat);
    add_buffer("table", [](c10::Device device) {
      return at::ones({2}, at::TensorOptions().dtype(at::kFloat).device(device));
    });
  }
  void reset_own_parameters() override {
    parameter("by").fill_(1);
    ++resets;
  }
  int resets = 0;

 protected:
  at::Tensor forward(const Tensors& inputs) override {
    return inputs.at(0) * parameter("by") * buffer("table");
  }
};

// As torch's. Catches: a layer that stands in two places, and is given its first values, hooks or a placement
// in each; a buffer that two layers share, and that is two after they are distributed.
TEST(Module, WhatStandsTwiceIsOneModule) {
  const auto scale = std::make_shared<Scale>(), other = std::make_shared<Scale>();
  Sequential model;
  for (const auto& module : {scale, other, scale}) model.push_back(module);
  model.set_buffer("1.table", model.buffer("0.table"));
  std::string paths;
  for (const auto& [path, module] : model.named_modules()) paths += path + " ";
  EXPECT_EQ(paths, " 0 1 ");
  EXPECT_EQ(model.named_buffers().size(), 1);
  EXPECT_EQ(model.buffers_with_paths().at(0).paths,
            (std::vector<std::string>{"0.table", "1.table", "2.table"}));
  reset_parameters(model);
  EXPECT_EQ(scale->resets, 1);
  const auto mesh = init_device_mesh({2}, {"tp"});
  const char* const rows = ".forward_pre:<in>:0:redist(->R,tp)\n2.forward_post:<out>:redist(->S0,tp)";
  EXPECT_THROW(parallelize(model, mesh, parse_plan(concat("0.forward_post:<out>:redist(->S0,tp)\n2", rows))),
               Error);
  parallelize(model, mesh, parse_plan(concat("2", rows)));
  EXPECT_EQ(scale->register_forward_hook([](auto&, auto&, auto&) {}), 2);  // after the plan's two
  EXPECT_TRUE(is_dtensor(model.buffer("0.table")));
  EXPECT_TRUE(model.buffer("0.table").is_same(model.buffer("1.table")));
  EXPECT_EQ(to_string(placements(model(distribute_tensor(at::ones({2, 2}), mesh, {Replicate{}})))), "[S0]");
}

// Catches: a replaced parameter that forward does not see (as set_data on a copied handle would be).
TEST(Module, ReplacedParametersAreUsed) {
  Linear linear(3, 2, false);
  linear.set_parameter("weight", at::ones({2, 3}));
  expect_same_bits(linear(at::ones({1, 3})), at::full({1, 2}, 3.0));
  EXPECT_THROW(linear.set_parameter("weight", at::ones({3, 2})), Error);
  EXPECT_THROW(linear.set_parameter("weight", at::ones({2, 3}, at::kDouble)), Error);
}

TEST(Parallel, PatternsMatchWholePaths) {
  EXPECT_TRUE(matches("layers.*.q_proj.weight", "layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("a*b*c", "abbc"));
  EXPECT_FALSE(matches("layers.*.q_proj", "layers.0.self_attn.q_proj.weight"));
  EXPECT_FALSE(matches("norm", "layers.0.norm"));
  EXPECT_FALSE(matches("a*b", "a"));
}

}  // namespace
}  // namespace lockstep::nn
