// SPDX-License-Identifier: Apache-2.0
// GPT-2 (learned positions, LayerNorm, one linear for queries, keys and values, GELU, a head that is the
// table of tokens), named as Hugging Face's without the prefix "transformer". The model is the same code on
// plain and on distributed tensors; its plan is in model_plan.h.
#pragma once
#include "suites/train/language_model.h"

namespace lockstep::suites {

class Gpt2 : public LanguageModel {
 public:
  explicit Gpt2(const ModelOptions& options);

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::Embedding> wte_, wpe_;
  std::shared_ptr<nn::Dropout> drop_;
  std::shared_ptr<nn::Sequential> h_;
  std::shared_ptr<nn::LayerNorm> ln_f_;
  std::shared_ptr<nn::Linear> lm_head_;
  std::shared_ptr<nn::CrossEntropy> loss_;
};

}  // namespace lockstep::suites
