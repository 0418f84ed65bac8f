// SPDX-License-Identifier: Apache-2.0
// Muon: steps of matrices along the nearest orthogonal matrix of their momentum. torch.optim.Muon (2.11); on
// several ranks veScale-FSDP, Algorithm 2.
#pragma once
#include <array>

#include "engine/optim/optimizer.h"

namespace lockstep::optim {

enum class AdjustLr { kOriginal, kMatchRmsAdamW };  // torch's adjust_lr_fn "original" and "match_rms_adamw"

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  int64_t ns_steps = 5;
  AdjustLr adjust_lr = AdjustLr::kOriginal;
  bool single_precision = false;  // Newton-Schulz in 32 bits instead of bfloat16: other bits
};

// Law: whatever the placements, one device's step, bit for bit; and that is torch.optim.Muon's, but for
// parameters in bfloat16 without nesterov, of which torch 2.11 scales the momentum itself. Of a matrix that
// ranks have parts of, one of them, the root, gets the whole (a RaggedShard of one block), makes it
// orthogonal, and gives the parts back; a matrix is on its way while others are at work. Along its other mesh
// dimensions ranks do the same.
class Muon {
 public:
  // Throws Error for a parameter that is no matrix (give it to an AdamW) or on another device than the
  // CPU, and for ns_steps that are not from 0 to 99.
  explicit Muon(Tensors parameters, MuonOptions options = {});
  // As AdamW's.
  void step();
  void zero_grad(bool set_to_none = true) { optim::zero_grad(parameters_, set_to_none); }
  void set_lr(double lr) { options_.lr = lr; }

  // One for each parameter: undefined until its first step.
  const Tensors& momentum() const { return momentum_; }
  // @pre placed as the parameters are
  void load_momentum(Tensors momentum) { momentum_ = std::move(momentum); }

 private:
  double adjusted_lr(const at::Tensor& parameter) const;

  Tensors parameters_, momentum_;
  MuonOptions options_;
};

// For each matrix its root of so many ranks: in descending order of costs (as they come where these are the
// same) each goes to the rank with the least to do so far, the first of several.
std::vector<int64_t> select_roots(const std::vector<double>& costs, int64_t ranks);

}  // namespace lockstep::optim
