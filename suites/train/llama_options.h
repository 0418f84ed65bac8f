// SPDX-License-Identifier: Apache-2.0
// The sizes of a model of the LLaMA-3 architecture, and its presets.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string_view>

namespace lockstep::suites {

struct LlamaOptions {
  int64_t hidden = 128, layers = 2;
  int64_t heads = 16, kv_heads = 8;
  int64_t head = 0;  // features of one; 0: hidden / heads
  int64_t mlp = 250, vocabulary = 257;
  int64_t max_sequence = 128;
  double rope_base = 500000, norm_eps = 1e-5;
  double dropout = 0.1;
  c10::ScalarType dtype = c10::ScalarType::Float;
};

// "tiny": MLP and vocabulary divide unevenly; "odd": hidden 90, heads 6, kv heads 3, nothing divides by 4
// or 8; "8b": LLaMA-3 8B's published shapes, for its parameters (initialise), not to train here. Throws Error
// that lists the presets.
LlamaOptions llama_preset(std::string_view name);
int64_t parameter_count(const LlamaOptions& options);  // elements of all parameters

}  // namespace lockstep::suites
