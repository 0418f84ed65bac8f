// SPDX-License-Identifier: Apache-2.0
// A mixture of experts on one device, and its gradients, each row and each sum where it belongs: what a mesh
// that deals the rows out must come to.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::oracle {

// Of scores [..., experts] the numbers of the k greatest, [..., k], the greatest first; of equal ones the
// lower number first. Without a sort.
at::Tensor best_of(const at::Tensor& scores, int64_t k);

struct MixtureWeights {
  at::Tensor gate;                           // [experts, features]
  at::Tensor gate_proj, up_proj, down_proj;  // [experts, inner, features], twice; [experts, features, inner]
};

struct MixtureEnds {
  at::Tensor output, x;  // [tokens, features]; x and below: gradients
  MixtureWeights weights;
};

// Jiang et al. 2024, section 2.2: softmax(x gate^T), its top k over their sum, SwiGLU experts; the outputs of
// a token's experts are added with the best one first.
// Ranks have tokens of their own: `parts` are how many each has, by its coordinate along the mesh dimensions
// that cut them, of sizes `along`, row-major. Of those that differ along the last one alone, if that is the
// experts', an expert has all rows at once, a block of them; else of each rank by itself. A gradient of the
// experts adds up what the blocks give, and that of the gate what the ranks do, along one mesh dimension
// after the other, the first one first.
// @param grad of the output
// @param last_has_experts whether the last of `along` is the experts'
MixtureEnds mixture(const at::Tensor& x, const at::Tensor& grad, const MixtureWeights& weights, int64_t top_k,
                    const std::vector<int64_t>& parts, const std::vector<int64_t>& along,
                    bool last_has_experts);

}  // namespace lockstep::oracle
