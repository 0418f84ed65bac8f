// SPDX-License-Identifier: Apache-2.0
// The sizes of a model that is trained, of whatever architecture, and their presets.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

namespace lockstep::suites {

// Mixtral is LLaMA with a mixture of experts in place of each MLP.
enum class Architecture { kLlama, kGpt2 };

struct ModelOptions {
  int64_t hidden = 128, layers = 2;
  int64_t heads = 16, kv_heads = 8;
  int64_t head = 0;  // features of one; 0: hidden / heads
  int64_t mlp = 250, vocabulary = 257;
  int64_t experts = 0, top_k = 2;  // each of `mlp` inner features; 0: one MLP
  int64_t max_sequence = 128;
  double rope_base = 500000, norm_eps = 1e-5;
  double dropout = 0.1;
  c10::ScalarType dtype = c10::ScalarType::Float;
  int64_t token_blocks = 1;  // of a mixture on one device (nn/experts.h)
  Architecture architecture = Architecture::kLlama;
};

// "tiny": MLP and vocabulary divide unevenly; "odd": hidden 90, heads 6, kv heads 3, nothing divides by 4
// or 8; "wide": the first, ten times as wide; "8b": LLaMA-3 8B's published shapes, for its parameters
// (initialise), not to train here. Throws Error that lists the presets.
ModelOptions llama_preset(std::string_view name);
// Of "llama"; of "mixtral": the first two with 8 and 5 experts, of which the best two have a token, or
// "gpt-oss", GPT-OSS-20b's proportions (32 experts as wide as the model, the best four; attention wider than
// it, of eight queries to a key), without its sinks and biases; or of "gpt2": the first two, with as many
// keys as queries and four times as wide an MLP, and "124m", the smallest published one. Throws Error that
// lists what there is.
ModelOptions model_preset(std::string_view model, std::string_view preset);
int64_t parameter_count(const ModelOptions& options);  // elements of all parameters

}  // namespace lockstep::suites
