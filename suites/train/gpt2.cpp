// SPDX-License-Identifier: Apache-2.0
#include "suites/train/gpt2.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "engine/nn/blocks.h"
#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

constexpr double kDeviation = 0.02;

// A layer whose weight begins normal, and its bias zero.
template <class Layer>
class Normal : public Layer {
 public:
  template <class... Sizes>
  explicit Normal(double deviation, Sizes... sizes) : Layer(sizes...), deviation_(deviation) {}

  void reset_own_parameters() override {
    for (const auto& [name, value] : this->named_parameters())
      if (name == "weight")
        value.normal_(0, deviation_);
      else
        value.zero_();
  }

 private:
  double deviation_;
};

using NormalLinear = Normal<nn::Linear>;
using NormalEmbedding = Normal<nn::Embedding>;

// Its weight is the table of tokens, and begins as that.
class TiedHead : public nn::Linear {
 public:
  using nn::Linear::Linear;
  void reset_own_parameters() override {}
};

// Linears that end in a sum over all layers begin smaller, so that it does not grow with their number.
double deviation_of_sums(const ModelOptions& o) {
  return kDeviation / std::sqrt(2.0 * static_cast<double>(std::max<int64_t>(o.layers, 1)));
}

class SelfAttention : public nn::Module {
 public:
  explicit SelfAttention(const ModelOptions& o) : heads_(o.heads), head_(o.hidden / o.heads) {
    c_attn_ = add_child("c_attn",
                        std::make_shared<NormalLinear>(kDeviation, o.hidden, 3 * o.hidden, true, o.dtype));
    core_ = add_child("core",
                      std::make_shared<nn::AttentionCore>(nn::AttentionOptions{.hidden = o.hidden,
                                                                               .heads = o.heads,
                                                                               .kv_heads = o.heads,
                                                                               .max_sequence = o.max_sequence,
                                                                               .dtype = o.dtype,
                                                                               .dropout = o.dropout}));
    c_proj_ = add_child(
        "c_proj", std::make_shared<NormalLinear>(deviation_of_sums(o), o.hidden, o.hidden, true, o.dtype));
    resid_dropout_ = add_child("resid_dropout", std::make_shared<nn::Dropout>(o.dropout));
  }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override {
    const auto& x = inputs.at(0);
    const int64_t b = x.size(0), n = x.size(1);
    // All queries, all keys, all values: InterleavedShard(0, 3) of c_attn is a shard of the heads of each.
    const auto qkv = (*c_attn_)(x).view({b, n, 3, heads_, head_}).unbind(2);
    const auto y = (*core_)(qkv[0].transpose(1, 2), qkv[1].transpose(1, 2), qkv[2].transpose(1, 2));
    return (*resid_dropout_)((*c_proj_)(y.transpose(1, 2).reshape({b, n, heads_ * head_})));
  }

 private:
  int64_t heads_, head_;
  std::shared_ptr<nn::Linear> c_attn_, c_proj_;
  std::shared_ptr<nn::AttentionCore> core_;
  std::shared_ptr<nn::Dropout> resid_dropout_;
};

class Mlp : public nn::Module {
 public:
  explicit Mlp(const ModelOptions& o) {
    c_fc_ = add_child("c_fc", std::make_shared<NormalLinear>(kDeviation, o.hidden, o.mlp, true, o.dtype));
    c_proj_ = add_child("c_proj",
                        std::make_shared<NormalLinear>(deviation_of_sums(o), o.mlp, o.hidden, true, o.dtype));
    dropout_ = add_child("dropout", std::make_shared<nn::Dropout>(o.dropout));
  }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override {
    return (*dropout_)((*c_proj_)(at::gelu((*c_fc_)(inputs.at(0)), "tanh")));
  }

 private:
  std::shared_ptr<nn::Linear> c_fc_, c_proj_;
  std::shared_ptr<nn::Dropout> dropout_;
};

class Block : public nn::Module {
 public:
  explicit Block(const ModelOptions& o) {
    ln_1_ = add_child("ln_1", std::make_shared<nn::LayerNorm>(o.hidden, o.norm_eps, o.dtype));
    attn_ = add_child("attn", std::make_shared<SelfAttention>(o));
    ln_2_ = add_child("ln_2", std::make_shared<nn::LayerNorm>(o.hidden, o.norm_eps, o.dtype));
    mlp_ = add_child("mlp", std::make_shared<Mlp>(o));
  }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override {
    const auto& x = inputs.at(0);
    const auto y = x + (*attn_)((*ln_1_)(x));
    return y + (*mlp_)((*ln_2_)(y));
  }

 private:
  std::shared_ptr<nn::LayerNorm> ln_1_, ln_2_;
  std::shared_ptr<SelfAttention> attn_;
  std::shared_ptr<Mlp> mlp_;
};

}  // namespace

Gpt2::Gpt2(const ModelOptions& o) {
  wte_ = add_child("wte", std::make_shared<NormalEmbedding>(kDeviation, o.vocabulary, o.hidden, o.dtype));
  wpe_ = add_child("wpe", std::make_shared<NormalEmbedding>(kDeviation, o.max_sequence, o.hidden, o.dtype));
  add_buffer("positions", [n = o.max_sequence](at::Device device) {
    return at::arange(n, at::TensorOptions(at::kLong).device(device));
  });
  drop_ = add_child("drop", std::make_shared<nn::Dropout>(o.dropout));
  h_ = add_child("h", std::make_shared<nn::Sequential>());
  for (int64_t i = 0; i < o.layers; ++i) h_->push_back(std::make_shared<Block>(o));
  ln_f_ = add_child("ln_f", std::make_shared<nn::LayerNorm>(o.hidden, o.norm_eps, o.dtype));
  lm_head_ = add_child("lm_head", std::make_shared<TiedHead>(o.hidden, o.vocabulary, false, o.dtype));
  set_parameter("lm_head.weight", parameter("wte.weight"));
  loss_ = add_child("loss", std::make_shared<nn::CrossEntropy>(o.vocabulary));
}

at::Tensor Gpt2::forward(const nn::Tensors& inputs) {
  const auto& tokens = inputs.at(0);
  const int64_t n = tokens.size(1), most = buffer("positions").size(0);
  LOCKSTEP_CHECK(n <= most, "[gpt2] ", n, " positions; the model was made for ", most,
                 "; give max_sequence as many");
  const auto x = (*wte_)(tokens) + (*wpe_)(buffer("positions").narrow(0, 0, n));
  return loss_of(*loss_, (*lm_head_)((*ln_f_)((*h_)((*drop_)(x)))), inputs.at(1));
}

}  // namespace lockstep::suites
