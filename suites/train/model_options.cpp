// SPDX-License-Identifier: Apache-2.0
#include "suites/train/model_options.h"

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

ModelOptions mixtral_preset(std::string_view name) {
  if (name == "gpt-oss")
    return {.hidden = 96,
            .heads = 8,
            .kv_heads = 1,
            .head = 16,
            .mlp = 96,
            .experts = 32,
            .top_k = 4,
            .rope_base = 150000};
  LOCKSTEP_CHECK(name == "tiny" || name == "odd", "[mixtral] no preset '", name,
                 "'; there are: tiny, odd, gpt-oss");
  auto options = llama_preset(name);
  options.experts = name == "tiny" ? 8 : 5;
  options.mlp = name == "tiny" ? 64 : 45;
  options.rope_base = 1e6;
  return options;
}

ModelOptions gpt2_preset(std::string_view name) {
  ModelOptions options;
  if (name == "124m") {
    options.hidden = 768;
    options.layers = options.heads = 12;
    options.vocabulary = 50257;
    options.max_sequence = 1024;
  } else {
    LOCKSTEP_CHECK(name == "tiny" || name == "odd", "[gpt2] no preset '", name,
                   "'; there are: tiny, odd, 124m");
    options = llama_preset(name);
  }
  options.architecture = Architecture::kGpt2;
  options.kv_heads = options.heads;
  options.mlp = 4 * options.hidden;
  return options;
}

int64_t gpt2_parameter_count(const ModelOptions& o) {
  const int64_t attention = 4 * o.hidden * (o.hidden + 1), mlp = o.mlp * (2 * o.hidden + 1) + o.hidden;
  const int64_t layer = attention + mlp + 4 * o.hidden;
  return (o.vocabulary + o.max_sequence + 2) * o.hidden + o.layers * layer;
}

}  // namespace

ModelOptions llama_preset(std::string_view name) {
  ModelOptions options;
  if (name == "tiny") return options;
  if (name == "odd") {
    options.hidden = 90;
    options.heads = 6;
    options.kv_heads = 3;
    return options;
  }
  if (name == "wide") {
    options.hidden *= 10;
    options.mlp *= 10;
    return options;
  }
  LOCKSTEP_CHECK(name == "8b", "[llama] no preset '", name,
                 "'; there are: tiny, odd, wide, and 8b for init alone");
  options.hidden = 4096;
  options.layers = 32;
  options.heads = 32;
  options.mlp = 14336;
  options.vocabulary = 128256;
  return options;
}

ModelOptions model_preset(std::string_view model, std::string_view preset) {
  LOCKSTEP_CHECK(model == "llama" || model == "mixtral" || model == "gpt2", "[train] no model '", model,
                 "'; there are: llama, mixtral, gpt2");
  if (model == "mixtral") return mixtral_preset(preset);
  return model == "gpt2" ? gpt2_preset(preset) : llama_preset(preset);
}

int64_t parameter_count(const ModelOptions& o) {
  if (o.architecture == Architecture::kGpt2) return gpt2_parameter_count(o);
  const int64_t head = o.head > 0 ? o.head : o.hidden / o.heads;
  const int64_t attention = 2 * o.hidden * head * (o.heads + o.kv_heads);
  const int64_t mlp = o.experts == 0 ? 3 * o.hidden * o.mlp : o.experts * (3 * o.hidden * o.mlp + o.hidden);
  const int64_t layer = attention + mlp + 2 * o.hidden;
  return 2 * o.vocabulary * o.hidden + o.layers * layer + o.hidden;
}

}  // namespace lockstep::suites
