// SPDX-License-Identifier: Apache-2.0
// A mixture of experts as in Mixtral: a router sends each token to the best of its scores. Written on global
// tensors, like all modules; where the experts' weights are Shard(0) along a mesh dimension, rows go along it
// to the ranks that have their experts, and come back.
#pragma once
#include "engine/nn/layers.h"

namespace lockstep::nn {

struct ExpertsOptions {
  int64_t hidden = 0, inner = 0;
  int64_t experts = 8, top_k = 2;
  at::ScalarType dtype = at::kFloat;
  // On one device: in how many blocks the tokens are counted, one behind the other, as a mesh whose batch is
  // cut into as many does. An expert's rows of each are a product of their own.
  int64_t blocks = 1;
};

// For each row by its expert: down_proj(silu(gate_proj(x)) * up_proj(x)). Parameters gate_proj, up_proj
// [experts, inner, hidden] and down_proj [experts, hidden, inner]: Mixtral's w1, w3 and w2. Inputs: rows [n,
// hidden], and on the host how many rows of each block are of each expert, int64[blocks, experts]
// (kernels/operators/experts.h).
class Experts : public Module {
 public:
  explicit Experts(const ExpertsOptions& options);
  void reset_own_parameters() override;

 protected:
  at::Tensor forward(const Tensors& inputs) override;
};

// For each token, [..., hidden]: the outputs of the top_k experts of the largest softmax(gate(x)), weighted
// by these scores over their sum and added in that order; of equal scores the expert with the lower number is
// first. Children `gate` (Linear) and `experts`; buffer `numbers` (0, 1, …), of the experts.
// Distributed: tokens are Replicate or Shard(0) along each mesh dimension, that of the experts the last of
// them to cut. Throws Error for another order, for tokens that the other ones cut unevenly, and for experts
// that several mesh dimensions cut.
class MixtureOfExperts : public Module {
 public:
  explicit MixtureOfExperts(const ExpertsOptions& options);
  // From now on each call keeps which experts its tokens have: chosen(), the best first, int64[..., top_k],
  // placed as the tokens were; undefined before.
  void keep_choices() { keeps_choices_ = true; }
  const at::Tensor& chosen() const { return chosen_; }

 protected:
  at::Tensor forward(const Tensors& inputs) override;

 private:
  struct Routing;
  Routing route(const at::Tensor& tokens, const at::Tensor& chosen) const;

  int64_t top_k_, blocks_;
  std::shared_ptr<Linear> gate_;
  std::shared_ptr<Experts> experts_;
  bool keeps_choices_ = false;
  at::Tensor chosen_;
};

}  // namespace lockstep::nn
