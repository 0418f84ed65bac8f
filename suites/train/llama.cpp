// SPDX-License-Identifier: Apache-2.0
#include "suites/train/llama.h"

#include <ATen/ATen.h>

namespace lockstep::suites {
namespace {

std::shared_ptr<nn::Module> make_mlp(const ModelOptions& o) {
  if (o.experts == 0) return std::make_shared<nn::Mlp>(o.hidden, o.mlp, o.dtype);
  return std::make_shared<nn::MixtureOfExperts>(nn::ExpertsOptions{.hidden = o.hidden,
                                                                   .inner = o.mlp,
                                                                   .experts = o.experts,
                                                                   .top_k = o.top_k,
                                                                   .dtype = o.dtype,
                                                                   .blocks = o.token_blocks});
}

}  // namespace

LlamaLayer::LlamaLayer(const ModelOptions& o) {
  input_layernorm_ =
      add_child("input_layernorm", std::make_shared<nn::RMSNorm>(o.hidden, o.norm_eps, o.dtype));
  self_attn_ = add_child("self_attn", std::make_shared<nn::Attention>(nn::AttentionOptions{
                                          .hidden = o.hidden,
                                          .heads = o.heads,
                                          .kv_heads = o.kv_heads,
                                          .max_sequence = o.max_sequence,
                                          .rope_base = o.rope_base,
                                          .dtype = o.dtype,
                                          .head = o.head,
                                      }));
  post_attention_layernorm_ =
      add_child("post_attention_layernorm", std::make_shared<nn::RMSNorm>(o.hidden, o.norm_eps, o.dtype));
  mlp_ = add_child("mlp", make_mlp(o));
  dropout_ = add_child("dropout", std::make_shared<nn::Dropout>(o.dropout));
}

at::Tensor LlamaLayer::forward(const nn::Tensors& inputs) {
  const auto& x = inputs.at(0);
  const auto y = x + (*dropout_)((*self_attn_)((*input_layernorm_)(x)));
  return y + (*dropout_)((*mlp_)((*post_attention_layernorm_)(y)));
}

Llama::Llama(const ModelOptions& o) {
  embed_tokens_ = add_child("embed_tokens", std::make_shared<nn::Embedding>(o.vocabulary, o.hidden, o.dtype));
  dropout_ = add_child("dropout", std::make_shared<nn::Dropout>(o.dropout));
  layers_ = add_child("layers", std::make_shared<nn::Sequential>());
  for (int64_t i = 0; i < o.layers; ++i)
    layers_->push_back(each_.emplace_back(std::make_shared<LlamaLayer>(o)));
  norm_ = add_child("norm", std::make_shared<nn::RMSNorm>(o.hidden, o.norm_eps, o.dtype));
  lm_head_ = add_child("lm_head", std::make_shared<nn::Linear>(o.hidden, o.vocabulary, false, o.dtype));
  loss_ = add_child("loss", std::make_shared<nn::CrossEntropy>(o.vocabulary));
}

void Llama::keep_choices() {
  for (const auto& layer : each_)
    if (auto* mixture = layer->mixture()) mixture->keep_choices();
}

nn::Tensors Llama::chosen() const {
  nn::Tensors all;
  for (const auto& layer : each_)
    if (const auto* mixture = layer->mixture()) all.push_back(mixture->chosen());
  return all;
}

at::Tensor Llama::forward(const nn::Tensors& inputs) {
  const auto x = (*layers_)((*dropout_)((*embed_tokens_)(inputs.at(0))));
  return loss_of(*loss_, (*lm_head_)((*norm_)(x)), inputs.at(1));
}

}  // namespace lockstep::suites
