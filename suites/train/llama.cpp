// SPDX-License-Identifier: Apache-2.0
#include "suites/train/llama.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "engine/plan/parallelize.h"
#include "engine/plan/styles.h"
#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

bool has_dim(const DeviceMesh& mesh, std::string_view name) {
  return std::find(mesh.names().begin(), mesh.names().end(), name) != mesh.names().end();
}

std::shared_ptr<nn::Module> make_mlp(const LlamaOptions& o) {
  if (o.experts == 0) return std::make_shared<nn::Mlp>(o.hidden, o.mlp, o.dtype);
  return std::make_shared<nn::MixtureOfExperts>(nn::ExpertsOptions{.hidden = o.hidden,
                                                                   .inner = o.mlp,
                                                                   .experts = o.experts,
                                                                   .top_k = o.top_k,
                                                                   .dtype = o.dtype,
                                                                   .blocks = o.token_blocks});
}

}  // namespace

LlamaOptions llama_preset(std::string_view name) {
  LlamaOptions options;
  if (name == "tiny") return options;
  if (name == "odd") {
    options.hidden = 90;
    options.heads = 6;
    options.kv_heads = 3;
    return options;
  }
  LOCKSTEP_CHECK(name == "8b", "[llama] no preset '", name, "'; there are: tiny, odd, and 8b for init alone");
  options.hidden = 4096;
  options.layers = 32;
  options.heads = 32;
  options.mlp = 14336;
  options.vocabulary = 128256;
  return options;
}

LlamaOptions model_preset(std::string_view model, std::string_view preset) {
  LOCKSTEP_CHECK(model == "llama" || model == "mixtral", "[train] no model '", model,
                 "'; there are: llama, mixtral");
  if (model == "llama") return llama_preset(preset);
  if (preset == "gpt-oss")
    return {.hidden = 96,
            .heads = 8,
            .kv_heads = 1,
            .head = 16,
            .mlp = 96,
            .experts = 32,
            .top_k = 4,
            .rope_base = 150000};
  LOCKSTEP_CHECK(preset == "tiny" || preset == "odd", "[mixtral] no preset '", preset,
                 "'; there are: tiny, odd, gpt-oss");
  auto options = llama_preset(preset);
  options.experts = preset == "tiny" ? 8 : 5;
  options.mlp = preset == "tiny" ? 64 : 45;
  options.rope_base = 1e6;
  return options;
}

int64_t parameter_count(const LlamaOptions& o) {
  const int64_t head = o.head > 0 ? o.head : o.hidden / o.heads;
  const int64_t attention = 2 * o.hidden * head * (o.heads + o.kv_heads);
  const int64_t mlp = o.experts == 0 ? 3 * o.hidden * o.mlp : o.experts * (3 * o.hidden * o.mlp + o.hidden);
  const int64_t layer = attention + mlp + 2 * o.hidden;
  return 2 * o.vocabulary * o.hidden + o.layers * layer + o.hidden;
}

LlamaLayer::LlamaLayer(const LlamaOptions& o) {
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

Llama::Llama(const LlamaOptions& o) {
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
  const auto logits = (*lm_head_)((*norm_)(x));
  const bool half = logits.scalar_type() == at::kHalf || logits.scalar_type() == at::kBFloat16;
  return (*loss_)(half ? logits.to(at::kFloat) : logits, inputs.at(1));
}

ParallelPlan llama_plan(const LlamaOptions& o, int64_t ranks) {
  // Linears by columns and by rows in turn, norms and dropout on pieces of the sequence, embedding, head and
  // loss by vocabulary.
  static const auto kEnds = parse_plan(R"(
embed_tokens.init:weight:shard(S0,tp)
embed_tokens.forward_pre:<in>:0:redist(->R,tp)
embed_tokens.forward_post:<out>:redist(->S1,tp)
norm.forward_pre:<in>:0:redist(->S1,tp)
lm_head.init:weight:shard(S0,tp)
lm_head.forward_pre:<in>:0:redist(->R,tp)
loss.init:classes:shard(S0,tp)
)");
  static const auto kLayers = parse_plan(R"(
layers\.\d+\..*norm.forward_pre:<in>:0:redist(->S1,tp)
layers\.\d+\.(self_attn|mlp).forward_pre:<in>:0:redist(->R,tp)
layers\.\d+\.self_attn\.[qkv]_proj.init:weight:shard(S0,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:0:redist(->S1,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:1:redist(->S1,tp)
layers\.\d+\.self_attn\.core.forward_pre:<in>:2:redist(->S1,tp)
layers\.\d+\.self_attn\.o_proj.init:weight:shard(S1,tp)
layers\.\d+\.self_attn\.o_proj.forward_pre:<in>:0:redist(->S-1,tp)
layers\.\d+\.self_attn\.o_proj.forward_post:<out>:redist(->S1,tp)
layers\.\d+\.mlp\.(gate|up)_proj.init:weight:shard(S0,tp)
layers\.\d+\.mlp\.down_proj.init:weight:shard(S1,tp)
layers\.\d+\.mlp\.down_proj.forward_pre:<in>:0:redist(->S-1,tp)
layers\.\d+\.mlp\.down_proj.forward_post:<out>:redist(->S1,tp)
)");
  // Heads that ranks do not share evenly: whole wherever views fold them into features.
  static const auto kUneven = parse_plan(R"(
layers\.\d+\.self_attn\.([qkv]_proj|core).forward_post:<out>:redist(->R,tp)
)");
  auto plan = kEnds;
  if (o.layers == 0) return plan;
  plan += kLayers;
  if (o.heads % ranks != 0 || o.kv_heads % ranks != 0) plan += kUneven;
  return plan;
}

Placements batch_placements(const DeviceMesh& mesh) {
  Placements result(static_cast<size_t>(mesh.ndim()), Shard{0});
  for (size_t d = 0; d < result.size(); ++d)
    if (mesh.names()[d] == "tp") result[d] = Replicate{};
  return result;
}

ParallelPlan model_plan(const LlamaOptions& options, const DeviceMesh& mesh) {
  ParallelPlan plan;
  if (has_dim(mesh, "tp")) plan += llama_plan(options, mesh.size(mesh.dim_index("tp")));
  if (has_dim(mesh, "ep") && options.layers > 0)
    plan += expert_parallel("layers\\.\\d+\\.mlp\\.experts", "ep");
  if (!has_dim(mesh, "fsdp")) return plan;
  if (options.layers > 0) plan += fully_sharded("layers\\.\\d+", "fsdp");
  return plan += fully_sharded("", "fsdp");
}

void parallelize_llama(Llama& model, const LlamaOptions& options, const MeshInWorld& mesh,
                       const MixedPrecisionPolicy& precision, int64_t block_rows) {
  FullyShardOptions buffers{.mp_policy = precision};
  if (block_rows > 0)
    buffers.orig_param_policy = [block_rows](std::string_view, const at::Tensor& parameter) {
      if (parameter.dim() < 2) return int64_t{1};
      // Of stacked matrices, one that such blocks do not divide is a block.
      const bool divides = parameter.dim() == 2 || parameter.size(-2) % block_rows == 0;
      return (divides ? block_rows : parameter.size(-2)) * parameter.size(-1);
    };
  parallelize(model, mesh, model_plan(options, mesh.mesh), {.buffers = std::move(buffers)});
}

}  // namespace lockstep::suites
