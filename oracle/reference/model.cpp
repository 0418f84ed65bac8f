// SPDX-License-Identifier: Apache-2.0
#include "oracle/reference/model.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>
#include <limits>

#include "engine/stream/random_source.h"
#include "engine/values/error.h"
#include "oracle/reference/mixture.h"

namespace lockstep::oracle {

ReferenceModel::ReferenceModel(const ModelSizes& sizes, c10::ScalarType dtype)
    : sizes_(sizes), dtype_(dtype) {
  if (sizes_.head == 0) sizes_.head = sizes.hidden / sizes.heads;
  const int64_t hidden = sizes.hidden, inner = sizes_.head * sizes.heads, kv = sizes_.head * sizes.kv_heads;
  add("embed_tokens", {sizes.vocabulary, hidden});
  for (int64_t i = 0; i < sizes.layers; ++i) {
    const auto layer = concat("layers.", i);
    add(layer + ".input_layernorm", {hidden});
    add(layer + ".self_attn.q_proj", {inner, hidden});
    add(layer + ".self_attn.k_proj", {kv, hidden});
    add(layer + ".self_attn.v_proj", {kv, hidden});
    add(layer + ".self_attn.o_proj", {hidden, inner});
    add(layer + ".post_attention_layernorm", {hidden});
    if (sizes.experts == 0) {
      add(layer + ".mlp.gate_proj", {sizes.mlp, hidden});
      add(layer + ".mlp.up_proj", {sizes.mlp, hidden});
      add(layer + ".mlp.down_proj", {hidden, sizes.mlp});
      continue;
    }
    add(layer + ".mlp.gate", {sizes.experts, hidden});
    add(layer + ".mlp.experts.gate_proj", {sizes.experts, sizes.mlp, hidden});
    add(layer + ".mlp.experts.up_proj", {sizes.experts, sizes.mlp, hidden});
    add(layer + ".mlp.experts.down_proj", {sizes.experts, hidden, sizes.mlp});
  }
  add("norm", {hidden});
  add("lm_head", {sizes.vocabulary, hidden});
}

void ReferenceModel::add(const std::string& name, std::vector<int64_t> shape) {
  const auto value = at::zeros(shape, at::TensorOptions(dtype_)).requires_grad_();
  parameters_.emplace_back(shape.size() == 3 ? name : name + ".weight", value);
  by_name_[name] = value;
}

void ReferenceModel::init() {
  const RandomScope scope(source_);
  for (const auto& [name, value] : parameters_)
    if (value.dim() == 1)
      torch::nn::init::ones_(value);
    else if (name.starts_with("embed_tokens"))
      torch::nn::init::normal_(value);
    else if (value.dim() == 3)
      torch::nn::init::uniform_(value, -1 / std::sqrt(static_cast<double>(value.size(2))),
                                1 / std::sqrt(static_cast<double>(value.size(2))));
    else
      torch::nn::init::kaiming_uniform_(value, std::sqrt(5.0));
}

const at::Tensor& ReferenceModel::weight(const std::string& module) const {
  return by_name_.at(module);
}

at::Tensor ReferenceModel::linear(const at::Tensor& x, const std::string& module) const {
  return x.matmul(weight(module).t());
}

// Zhang and Sennrich 2019, equation 4: x over the root of the mean of its squares, times the gain.
at::Tensor ReferenceModel::rms_norm(const at::Tensor& x, const std::string& module) const {
  const auto mean_square = x.pow(2).mean(-1, /*keepdim=*/true);
  return x * (mean_square + sizes_.norm_eps).rsqrt() * weight(module);
}

at::Tensor ReferenceModel::dropped(const at::Tensor& x) {
  if (!is_training_) return x;
  const RandomScope scope(source_);
  return at::dropout(x, sizes_.dropout, /*train=*/true);
}

// Su et al. 2021, section 3.4.2, with features paired as LLaMA's published weights pair them, i with i +
// half: each pair is a complex number, turned at position m by m base^(-2i/rotary). What is left of an odd
// head passes. @param head [batch, sequence, size]
at::Tensor ReferenceModel::rotated(const at::Tensor& head) const {
  const int64_t half = head.size(-1) / 2;
  if (half == 0) return head;
  const auto real = at::TensorOptions(head.scalar_type());
  std::vector<double> turns;
  for (int64_t i = 0; i < half; ++i)
    turns.push_back(std::pow(sizes_.rope_base, -static_cast<double>(i) / static_cast<double>(half)));
  const auto angle = at::arange(head.size(1), real).unsqueeze(1) * at::tensor(turns, real).unsqueeze(0);
  const auto turned = at::complex(head.slice(-1, 0, half), head.slice(-1, half, 2 * half)) *
                      at::polar(at::ones_like(angle), angle);
  return at::cat({at::real(turned), at::imag(turned), head.slice(-1, 2 * half)}, -1);
}

// Vaswani et al. 2017, equation 1, causal; Ainslie et al. 2023: query heads share key and value heads in
// groups of neighbours.
at::Tensor ReferenceModel::attention(const at::Tensor& x, const std::string& module) const {
  const int64_t sequence = x.size(1), size = sizes_.head;
  const int64_t group = sizes_.heads / sizes_.kv_heads;
  const auto q = linear(x, module + ".q_proj"), k = linear(x, module + ".k_proj"),
             v = linear(x, module + ".v_proj");
  const auto head = [&](const at::Tensor& y, int64_t h) { return y.slice(-1, h * size, (h + 1) * size); };
  const auto later = at::ones({sequence, sequence}, at::kBool).triu(1);
  std::vector<at::Tensor> outputs;
  for (int64_t h = 0; h < sizes_.heads; ++h) {
    const auto query = rotated(head(q, h)), key = rotated(head(k, h / group));
    const auto scores = query.bmm(key.transpose(1, 2)) / std::sqrt(static_cast<double>(size));
    const auto seen = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    outputs.push_back(seen.softmax(-1).bmm(head(v, h / group)));
  }
  return linear(at::cat(outputs, -1), module + ".o_proj");
}

// Shazeer 2020, equation 6, with Swish of beta 1: z sigmoid(z).
at::Tensor ReferenceModel::swiglu(const at::Tensor& x, const at::Tensor& gate, const at::Tensor& up,
                                  const at::Tensor& down) const {
  const auto z = x.matmul(gate.t());
  return (z * z.sigmoid() * x.matmul(up.t())).matmul(down.t());
}

at::Tensor ReferenceModel::mlp(const at::Tensor& x, const std::string& module) const {
  if (sizes_.experts > 0) return mixture(x, module);
  return swiglu(x, weight(module + ".gate_proj"), weight(module + ".up_proj"), weight(module + ".down_proj"));
}

// Jiang et al. 2024, section 2.2: softmax over the scores of the top k alone, which is the softmax of all
// over its sum at these. Every expert answers every token, and counts where it is chosen.
at::Tensor ReferenceModel::mixture(const at::Tensor& x, const std::string& module) const {
  const auto scores = linear(x, module + ".gate");
  const auto is_chosen =
      at::zeros(scores.sizes(), at::kBool).scatter(-1, best_of(scores, sizes_.top_k), true);
  const auto weights =
      scores.masked_fill(is_chosen.logical_not(), -std::numeric_limits<double>::infinity()).softmax(-1);
  auto sum = at::zeros_like(x);
  for (int64_t e = 0; e < sizes_.experts; ++e) {
    const auto of = [&](const char* name) { return weight(concat(module, ".experts.", name))[e]; };
    sum = sum +
          weights.select(-1, e).unsqueeze(-1) * swiglu(x, of("gate_proj"), of("up_proj"), of("down_proj"));
  }
  return sum;
}

at::Tensor ReferenceModel::loss(const at::Tensor& tokens, const at::Tensor& targets) {
  auto x = dropped(weight("embed_tokens").index({tokens}));
  for (int64_t i = 0; i < sizes_.layers; ++i) {
    const auto layer = concat("layers.", i);
    x = x + dropped(attention(rms_norm(x, layer + ".input_layernorm"), layer + ".self_attn"));
    x = x + dropped(mlp(rms_norm(x, layer + ".post_attention_layernorm"), layer + ".mlp"));
  }
  const auto logits = linear(rms_norm(x, "norm"), "lm_head");
  return at::cross_entropy_loss(logits.flatten(0, 1), targets.flatten());
}

at::Tensor ReferenceModel::evaluate(const at::Tensor& tokens, const at::Tensor& targets) {
  is_training_ = false;
  const auto loss_then = loss(tokens, targets);
  is_training_ = true;
  return loss_then;
}

}  // namespace lockstep::oracle
