// SPDX-License-Identifier: Apache-2.0
// The LLaMA-3 architecture (RMSNorm, rotary embedding, grouped-query attention, SwiGLU), and Mixtral's, with
// dropout. The model is the same code on plain and on distributed tensors; its plan is in model_plan.h.
#pragma once
#include "engine/nn/blocks.h"
#include "engine/nn/experts.h"
#include "suites/train/language_model.h"

namespace lockstep::suites {

class LlamaLayer : public nn::Module {
 public:
  explicit LlamaLayer(const ModelOptions& options);
  nn::MixtureOfExperts* mixture() const { return dynamic_cast<nn::MixtureOfExperts*>(mlp_.get()); }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::RMSNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<nn::Attention> self_attn_;
  std::shared_ptr<nn::Module> mlp_;  // Mlp, or MixtureOfExperts
  std::shared_ptr<nn::Dropout> dropout_;
};

class Llama : public LanguageModel {
 public:
  explicit Llama(const ModelOptions& options);
  void keep_choices() override;
  nn::Tensors chosen() const override;

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::Embedding> embed_tokens_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Sequential> layers_;
  std::vector<std::shared_ptr<LlamaLayer>> each_;  // of the layers
  std::shared_ptr<nn::RMSNorm> norm_;
  std::shared_ptr<nn::Linear> lm_head_;
  std::shared_ptr<nn::CrossEntropy> loss_;
};

}  // namespace lockstep::suites
