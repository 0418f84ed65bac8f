// SPDX-License-Identifier: Apache-2.0
// The GPT-2 on one device: its formula, its first values, its head.
#include "suites/train/gpt2.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "engine/optim/optimizer.h"
#include "engine/values/error.h"
#include "suites/train/text.h"

namespace lockstep::suites {
namespace {

constexpr int64_t kSequence = 16;

ModelOptions small(const char* preset, double dropout = 0.1) {
  auto options = model_preset("gpt2", preset);
  options.max_sequence = kSequence;
  options.dropout = dropout;
  options.dtype = at::kDouble;
  return options;
}

// Catches: an estimate of memory that forgets a part of the model, or counts the table of tokens twice.
TEST(Gpt2, ParametersAreCounted) {
  for (const char* preset : {"tiny", "odd"}) {
    int64_t elements = 0;
    for (const auto& parameter : Gpt2(small(preset)).parameters()) elements += parameter.numel();
    EXPECT_EQ(parameter_count(small(preset)), elements) << preset;
  }
  EXPECT_EQ(parameter_count(model_preset("gpt2", "124m")), 124439808);
}

// Catches: a parameter that takes no part, a loss that cannot be learned.
TEST(Gpt2, LearnsOnOneDevice) {
  at::manual_seed(0);
  auto options = small("tiny");
  options.dtype = at::kFloat;
  Gpt2 model(options);
  nn::reset_parameters(model);
  optim::AdamW optimizer(model.parameters());
  const auto text = read_text("", kSequence);
  double first = 0, last = 0;
  for (int64_t step = 1; step <= 40; ++step) {
    const auto batch = make_batch(text, 0, step, 4, kSequence);
    optimizer.zero_grad();
    const auto loss = model(batch.tokens, batch.targets);
    loss.backward();
    for (const auto& [path, parameter] : model.named_parameters())
      EXPECT_TRUE(parameter.grad().defined() && parameter.grad().abs().max().item<float>() > 0) << path;
    optimizer.step();
    (step == 1 ? first : last) = loss.item<double>();
  }
  EXPECT_NEAR(first, std::log(257.0), 0.2);
  EXPECT_LT(last, first - 0.5);
}

// From the parameters alone, by Radford et al. 2019 and Hendrycks and Gimpel 2016.
class Formula {
 public:
  Formula(const Gpt2& model, const ModelOptions& options) : model_(model), o_(options) {}

  at::Tensor loss(const Batch& batch) const {
    const int64_t n = batch.tokens.size(1);
    const auto table = of("wte.weight");
    auto x = table.index({batch.tokens}) + of("wpe.weight").narrow(0, 0, n);
    for (int64_t i = 0; i < o_.layers; ++i) {
      const auto h = concat("h.", i);
      x = x + attention(normed(x, h + ".ln_1"), h + ".attn");
      const auto inner = linear(normed(x, h + ".ln_2"), h + ".mlp.c_fc");
      x = x + linear(gelu(inner), h + ".mlp.c_proj");
    }
    const auto logits = normed(x, "ln_f").matmul(table.t());
    return -logits.log_softmax(-1).gather(-1, batch.targets.unsqueeze(-1)).mean();
  }

 private:
  const at::Tensor& of(const std::string& path) const { return model_.parameter(path); }
  at::Tensor linear(const at::Tensor& x, const std::string& path) const {
    return x.matmul(of(path + ".weight").t()) + of(path + ".bias");
  }
  at::Tensor normed(const at::Tensor& x, const std::string& path) const {
    const auto centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + o_.norm_eps).sqrt() * of(path + ".weight") +
           of(path + ".bias");
  }
  static at::Tensor gelu(const at::Tensor& x) {
    return x * 0.5 * (1 + ((x + x.pow(3) * 0.044715) * std::sqrt(2 / std::numbers::pi)).tanh());
  }
  at::Tensor attention(const at::Tensor& x, const std::string& path) const {
    const int64_t n = x.size(1), head = o_.hidden / o_.heads;
    const auto qkv = linear(x, path + ".c_attn").split(o_.hidden, 2);
    const auto later = at::ones({n, n}, at::kBool).triu(1);
    std::vector<at::Tensor> heads;
    for (int64_t i = 0; i < o_.heads; ++i) {
      const auto part = [&](size_t which) { return qkv[which].narrow(2, i * head, head); };
      const auto scores = part(0).matmul(part(1).transpose(1, 2)) / std::sqrt(static_cast<double>(head));
      heads.push_back(scores.masked_fill(later, -INFINITY).softmax(-1).matmul(part(2)));
    }
    return linear(at::cat(heads, 2), path + ".c_proj");
  }

  const Gpt2& model_;
  const ModelOptions o_;
};

// Loss and gradients in double, without dropout. Catches: queries and keys exchanged, heads cut across, the
// other GELU, a norm at another place, a bias that is left out, a head with a table of its own.
TEST(Gpt2, IsTheFormula) {
  for (const char* preset : {"tiny", "odd"}) {
    SCOPED_TRACE(preset);
    at::manual_seed(0);
    const auto options = small(preset, 0);
    Gpt2 model(options);
    nn::reset_parameters(model);
    {
      const at::NoGradGuard no_grad;  // else no bias would show, nor which row of a norm's weight is whose
      for (const auto& parameter : model.parameters()) parameter.add_(at::randn_like(parameter), 0.1);
    }
    const auto batch = make_batch(read_text("", kSequence), 0, 1, 3, kSequence);
    const auto loss = model(batch.tokens, batch.targets);
    const auto expected = Formula(model, options).loss(batch);
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), 1e-12);
    loss.backward();
    nn::Tensors gradients;
    for (const auto& parameter : model.parameters()) gradients.push_back(parameter.grad());
    model.zero_grad();
    expected.backward();
    for (size_t i = 0; i < gradients.size(); ++i) {
      const auto [path, parameter] = model.named_parameters()[i];
      EXPECT_LT((gradients[i] - parameter.grad()).abs().max().item<double>(), 1e-12) << path;
    }
  }
}

// Catches: a table that the head draws anew, first values of another width, biases that are not zero.
TEST(Gpt2, FirstValuesAreThePublishedOnes) {
  at::manual_seed(0);
  const auto options = small("tiny");
  Gpt2 model(options);
  nn::reset_parameters(model);
  EXPECT_TRUE(model.parameter("lm_head.weight").is_same(model.parameter("wte.weight")));
  const auto deviation = [&](const char* path) {
    return model.parameter(path).detach().std().item<double>();
  };
  for (const char* path : {"wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "h.1.mlp.c_fc.weight"})
    EXPECT_NEAR(deviation(path), 0.02, 1e-3) << path;
  for (const char* path : {"h.0.attn.c_proj.weight", "h.1.mlp.c_proj.weight"})
    EXPECT_NEAR(deviation(path), 0.01, 5e-4) << path;
  for (const auto& [path, parameter] : model.named_parameters())
    EXPECT_EQ(path.ends_with("bias"), parameter.abs().max().item<double>() == 0) << path;
}

// Catches: positions that the table of positions has not, read beyond its end.
TEST(Gpt2, MorePositionsThanItHasAreAnError) {
  Gpt2 model(small("tiny"));
  nn::reset_parameters(model);
  const auto tokens = at::zeros({1, kSequence + 1}, at::kLong);
  EXPECT_THROW(model(tokens, tokens), Error);
}

}  // namespace
}  // namespace lockstep::suites
