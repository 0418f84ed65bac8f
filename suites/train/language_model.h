// SPDX-License-Identifier: Apache-2.0
// What all models that are trained have in common.
#pragma once
#include <memory>

#include "engine/nn/layers.h"
#include "suites/train/model_options.h"

namespace lockstep::suites {

// Inputs: tokens and targets [batch, sequence]. Output: the loss, the mean over all tokens.
class LanguageModel : public nn::Module {
 public:
  // From now on each call keeps, of each layer with experts, which of them its tokens have.
  virtual void keep_choices() {}
  virtual nn::Tensors chosen() const { return {}; }

 protected:
  // Of logits in 16 bits, in float32.
  static at::Tensor loss_of(nn::Module& loss, const at::Tensor& logits, const at::Tensor& targets);
};

std::shared_ptr<LanguageModel> make_model(const ModelOptions& options);
// The path of its layers, which are "layers.0", "layers.1", …, of a LLaMA, and "h.0", … of a GPT-2.
const char* layers_path(const ModelOptions& options);

}  // namespace lockstep::suites
