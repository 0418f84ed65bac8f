// SPDX-License-Identifier: Apache-2.0
// AdamW and SGD over aten::_foreach_* (or a fused op), and gradient clipping. The same ops run on plain
// and on distributed parameters, and none of them adds across elements but the norm: so sharded steps are
// bitwise those of one device. torch::optim's formulas, in its order of operations.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::optim {

using Tensors = std::vector<at::Tensor>;

// Drops the gradients, or fills them with zeros where they are.
void zero_grad(const Tensors& parameters, bool set_to_none = true);

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool fused = false;  // aten::_fused_adamw_ instead of the _foreach_ ops: other bits, one op
};

// One entry for each parameter; undefined and 0 until its first step.
struct AdamWState {
  Tensors exp_avg, exp_avg_sq;
  std::vector<int64_t> steps;
};

class AdamW {
 public:
  explicit AdamW(Tensors parameters, AdamWOptions options = {});
  // Parameters without a gradient are left alone. Throws Error if a gradient is placed otherwise than its
  // parameter.
  void step();
  void zero_grad(bool set_to_none = true) { optim::zero_grad(parameters_, set_to_none); }
  void set_lr(double lr) { options_.lr = lr; }

  const AdamWState& state() const { return state_; }
  // @pre placed as the parameters are
  void load_state(AdamWState state) { state_ = std::move(state); }

 private:
  void step_foreach(const std::vector<size_t>& active);
  void step_fused(const std::vector<size_t>& active);

  Tensors parameters_;
  AdamWState state_;
  AdamWOptions options_;
};

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0, dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  // aten::_fused_sgd_ instead of the _foreach_ ops: other bits, one op. Of parameters of 16 bits on the CPU
  // step() throws Error, whose kernel is wrong.
  bool fused = false;
};

class Sgd {
 public:
  explicit Sgd(Tensors parameters, SgdOptions options = {});
  // As AdamW's.
  void step();
  void zero_grad(bool set_to_none = true) { optim::zero_grad(parameters_, set_to_none); }
  void set_lr(double lr) { options_.lr = lr; }

  // One buffer for each parameter: undefined until its first step, as torch's, and for ever without momentum.
  const Tensors& momentum() const { return momentum_; }
  // @pre placed as the parameters are
  void load_momentum(Tensors momentum) { momentum_ = std::move(momentum); }

 private:
  void step_foreach(const std::vector<size_t>& active);
  // @param first of those that have no momentum yet
  void step_fused(const std::vector<size_t>& active, bool first);

  Tensors parameters_, momentum_;
  SgdOptions options_;
};

// Scales gradients so that the norm of all their elements is at most max_norm; returns the norm before, one
// element. The norm is the root of one sum of powers, by default of squares: torch adds the powers of rounded
// roots, which no sharded run can equal. Half-precision gradients are raised and added in float.
// @param norm_type above 0; infinity: the largest of the absolute values. Of another than 1, 2 and infinity
// ranks may have the norm in other last bits than one device: what pow gives depends on where in a tensor an
// element stands. Throws Error for another norm_type, and before anything is scaled where the norm is no
// finite number and `error_if_nonfinite`.
at::Tensor clip_grad_norm_(const Tensors& parameters, double max_norm, double norm_type = 2,
                           bool error_if_nonfinite = false);

}  // namespace lockstep::optim
