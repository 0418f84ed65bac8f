// SPDX-License-Identifier: Apache-2.0
// The LLaMA-3 architecture (RMSNorm, rotary embedding, grouped-query attention, SwiGLU) with dropout, its
// small presets, and its parallel plan. The model is the same code on plain and on distributed tensors.
#pragma once
#include <string_view>

#include "engine/nn/blocks.h"
#include "engine/nn/parallel.h"

namespace lockstep::suites {

struct LlamaOptions {
  int64_t hidden = 128, layers = 2;
  int64_t heads = 16, kv_heads = 8;
  int64_t mlp = 250, vocabulary = 257;
  int64_t max_sequence = 128;
  double rope_base = 500000, norm_eps = 1e-5;
  double dropout = 0.1;
  at::ScalarType dtype = at::kFloat;
};

// "tiny": MLP and vocabulary divide unevenly; "odd": hidden 90, heads 6, kv heads 3, nothing divides by 4
// or 8; "8b": LLaMA-3 8B's published shapes, for its parameters (initialise), not to train here. Throws Error
// that lists the presets.
LlamaOptions llama_preset(std::string_view name);
int64_t parameter_count(const LlamaOptions& options);  // elements of all parameters

class LlamaLayer : public nn::Module {
 public:
  explicit LlamaLayer(const LlamaOptions& options);

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::RMSNorm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<nn::Attention> self_attn_;
  std::shared_ptr<nn::Mlp> mlp_;
  std::shared_ptr<nn::Dropout> dropout_;
};

// Inputs: tokens and targets [batch, sequence]. Output: the loss, the mean over all tokens.
class Llama : public nn::Module {
 public:
  explicit Llama(const LlamaOptions& options);

 protected:
  at::Tensor forward(const nn::Tensors& inputs) override;

 private:
  std::shared_ptr<nn::Embedding> embed_tokens_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::Sequential> layers_;
  std::shared_ptr<nn::RMSNorm> norm_;
  std::shared_ptr<nn::Linear> lm_head_;
  std::shared_ptr<nn::CrossEntropy> loss_;
};

// Tensor parallelism over `ranks` ranks: column- and row-parallel linears, norms and dropout on pieces of the
// sequence, embedding, head and loss cut by vocabulary. Heads that do not divide by the ranks are cut
// unevenly, and gathered around the views that fold them into features.
std::vector<nn::ParallelPlan> llama_plan(const LlamaOptions& options, int64_t ranks);

// Distributes a model over the mesh dimension "tp", if there is one; over the others parameters are
// replicated.
void parallelize_llama(Llama& model, const LlamaOptions& options, const MeshInWorld& mesh);

// Tokens and targets: cut along "dp", the same on all tp ranks.
Placements batch_placements(const DeviceMesh& mesh);

}  // namespace lockstep::suites
