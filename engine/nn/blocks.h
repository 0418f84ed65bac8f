// SPDX-License-Identifier: Apache-2.0
// Attention (rotary embedding, grouped queries) and MLP (SwiGLU), named as in LLaMA. Written on global
// tensors only: a parallel plan is a matter of placements and hooks.
#pragma once
#include "engine/nn/layers.h"

namespace lockstep::nn {

struct AttentionOptions {
  int64_t hidden = 0, heads = 0, kv_heads = 0;
  int64_t max_sequence = 0;
  double rope_base = 500000;
  at::ScalarType dtype = at::kFloat;

  int64_t head = 0;    // features of one; 0: hidden / heads
  double dropout = 0;  // of the weights of values

  int64_t head_dim() const { return head > 0 ? head : hidden / heads; }
};

// dropout(softmax(q k^T / sqrt(head_dim) + mask)) v on [batch, heads, sequence, head_dim]: the inner product
// of Attention, a module of its own so that its inputs can be placed. Buffer `mask` [max_sequence,
// max_sequence]: 0 and -inf, causal.
class AttentionCore : public Module {
 public:
  explicit AttentionCore(const AttentionOptions& options);

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  double scale_, dropout_;
};

// q_proj, k_proj, v_proj, core, o_proj. Buffers `cos`, `sin` [max_sequence, rotary], rotary = the largest
// even number up to head_dim; what is left of a head passes unrotated.
class Attention : public Module {
 public:
  explicit Attention(const AttentionOptions& options);

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  at::Tensor rotate(const at::Tensor& heads) const;
  at::Tensor repeat_groups(const at::Tensor& heads) const;

  AttentionOptions options_;
  std::shared_ptr<Linear> q_proj_, k_proj_, v_proj_, o_proj_;
  std::shared_ptr<AttentionCore> core_;
};

// down_proj(silu(gate_proj(x)) * up_proj(x)).
class Mlp : public Module {
 public:
  Mlp(int64_t hidden, int64_t inner, at::ScalarType dtype = at::kFloat);

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  std::shared_ptr<Linear> gate_proj_, up_proj_, down_proj_;
};

}  // namespace lockstep::nn
