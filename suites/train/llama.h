// SPDX-License-Identifier: Apache-2.0
// The LLaMA-3 architecture (RMSNorm, rotary embedding, grouped-query attention, SwiGLU), and Mixtral's, with
// dropout, and their parallel plan. The model is the same code on plain and on distributed tensors.
#pragma once
#include "engine/fsdp/mixed_precision.h"
#include "engine/nn/blocks.h"
#include "engine/nn/experts.h"
#include "engine/plan/plan.h"
#include "engine/tensor/dtensor.h"
#include "suites/train/llama_options.h"

namespace lockstep::suites {

class LlamaLayer : public nn::Module {
 public:
  explicit LlamaLayer(const LlamaOptions& options);
  nn::MixtureOfExperts* mixture() const { return dynamic_cast<nn::MixtureOfExperts*>(mlp_.get()); }

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::RMSNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<nn::Attention> self_attn_;
  std::shared_ptr<nn::Module> mlp_;  // Mlp, or MixtureOfExperts
  std::shared_ptr<nn::Dropout> dropout_;
};

// Inputs: tokens and targets [batch, sequence]. Output: the loss, the mean over all tokens.
class Llama : public nn::Module {
 public:
  explicit Llama(const LlamaOptions& options);
  // From now on each call keeps, of each layer with experts, which of them its tokens have.
  void keep_choices();
  nn::Tensors chosen() const;

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

// Tensor and sequence parallelism over the mesh dimension "tp", of so many ranks. Heads that do not divide by
// the ranks are cut unevenly, and gathered around the views that fold them into features.
ParallelPlan llama_plan(const LlamaOptions& options, int64_t ranks);

// The model over the mesh dimension "tp", if there is one, its experts over "ep", and its parameters cut over
// "fsdp": those of each layer in a buffer, and then the rest. Over the others parameters are replicated.
ParallelPlan model_plan(const LlamaOptions& options, const DeviceMesh& mesh);

// The model by its plan.
// @param block_rows of matrices, that no rank has a part of; 0: they are cut anywhere
void parallelize_llama(Llama& model, const LlamaOptions& options, const MeshInWorld& mesh,
                       const MixedPrecisionPolicy& precision = {}, int64_t block_rows = 0);

// Tokens and targets: cut along all mesh dimensions but "tp", over which they are the same.
Placements batch_placements(const DeviceMesh& mesh);

}  // namespace lockstep::suites
