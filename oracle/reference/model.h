// SPDX-License-Identifier: Apache-2.0
// A decoder-only transformer of the LLaMA-3 or the Mixtral architecture on one device, written from the
// papers' formulas in plain libtorch: what the model of the engine must compute.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "oracle/random/random_simulation.h"

namespace lockstep::oracle {

struct ModelSizes {
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, mlp = 0, vocabulary = 0;
  double rope_base = 0, norm_eps = 0, dropout = 0;
  int64_t head = 0;                // features of one; 0: hidden / heads
  int64_t experts = 0, top_k = 0;  // 0: one MLP a layer
};

// Law: each function is its formula, one head, one term at a time; the random numbers are the simulation's,
// from generator(), in the order in which they are named below.
class ReferenceModel {
 public:
  // Parameters without values yet, of the published names: "layers.0.self_attn.q_proj.weight".
  ReferenceModel(const ModelSizes& sizes, c10::ScalarType dtype);

  // torch.nn's first values, in the order of parameters(): linear ones kaiming_uniform_ with a = sqrt(5), the
  // embedding standard normal, gains 1; an expert's as a linear one's.
  void init();
  // In order: embed_tokens; of each layer input_layernorm, self_attn.{q,k,v,o}_proj,
  // post_attention_layernorm, mlp.{gate,up,down}_proj, or with experts mlp.gate and, stacked,
  // mlp.experts.{gate,up,down}_proj; norm; lm_head.
  const std::vector<std::pair<std::string, at::Tensor>>& parameters() const { return parameters_; }

  // The mean cross entropy of all tokens, in training. Dropout is drawn of the embedding, then in each layer
  // of what attention adds, and of what the MLP adds. @param tokens, targets [batch, sequence]
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets);
  // The same in evaluation, where nothing is dropped or drawn.
  at::Tensor evaluate(const at::Tensor& tokens, const at::Tensor& targets);

 private:
  void add(const std::string& name, std::vector<int64_t> shape);
  const at::Tensor& weight(const std::string& module) const;
  at::Tensor linear(const at::Tensor& x, const std::string& module) const;
  at::Tensor rms_norm(const at::Tensor& x, const std::string& module) const;
  at::Tensor dropped(const at::Tensor& x);
  at::Tensor rotated(const at::Tensor& head) const;
  at::Tensor attention(const at::Tensor& x, const std::string& module) const;
  at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                    const at::Tensor& down) const;
  at::Tensor mlp(const at::Tensor& x, const std::string& module) const;
  at::Tensor mixture(const at::Tensor& x, const std::string& module) const;

  ModelSizes sizes_;
  c10::ScalarType dtype_;
  bool is_training_ = true;
  SimulatedSource source_;
  std::vector<std::pair<std::string, at::Tensor>> parameters_;
  std::map<std::string, at::Tensor> by_name_;
};

}  // namespace lockstep::oracle
