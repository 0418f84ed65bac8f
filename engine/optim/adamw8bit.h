// SPDX-License-Identifier: Apache-2.0
// AdamW whose moments are 8 bits an element, in tiles of one scale each. Dettmers et al., 8-bit Optimizers
// via Block-wise Quantization (2022); tiles of rows and columns: veScale-FSDP, section 6.3.
#pragma once
#include "engine/optim/optimizer.h"

namespace lockstep::optim {

struct AdamW8bitOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  int64_t block_size = 32;       // rows and columns of a tile
  int64_t min_8bit_size = 4096;  // of fewer elements a parameter keeps its moments in its own dtype
};

// A moment between two steps: codes of 8 bits in the parameter's shape and a scale a tile; or the moment
// itself as `scales`, and `codes` is undefined.
struct Moment8bit {
  at::Tensor codes, scales;
};
// One entry for each parameter; undefined and 0 until its first step.
struct AdamW8bitState {
  std::vector<Moment8bit> exp_avg, exp_avg_sq;
  std::vector<int64_t> steps;
};

// Law: AdamW's step, bit for bit, from what the codes stand for; then the moments are codes again. So a
// parameter is updated by the moments before they are quantized. Vectors, small parameters and those of
// another dtype than single precision keep their moments as they are. Nothing moves between ranks where each
// has whole rows of tiles: under fully_shard, with an orig_param_policy of block_size rows. Where ranks have
// parts of tiles, gradients and parameters are gathered in each step, and codes stay as every rank needs
// them: 2 bytes for each element of the whole.
class AdamW8bit {
 public:
  // Throws Error for a block_size below 1, and for parameters on another device than the CPU.
  explicit AdamW8bit(Tensors parameters, AdamW8bitOptions options = {});
  // As AdamW's.
  void step();
  void zero_grad(bool set_to_none = true) { optim::zero_grad(parameters_, set_to_none); }
  void set_lr(double lr) { options_.lr = lr; }

  const AdamW8bitState& state() const { return state_; }
  // In any placements: what is elsewhere than a step needs it moves in the next one.
  void load_state(AdamW8bitState state) { state_ = std::move(state); }

 private:
  bool is_8bit(const at::Tensor& parameter) const;
  at::Tensor widened(const Moment8bit& moment, const at::Tensor& parameter, bool is_signed) const;
  Moment8bit narrowed(const at::Tensor& moment, bool is_signed) const;
  void update(const std::vector<size_t>& indices);

  Tensors parameters_;
  AdamW8bitState state_;
  AdamW8bitOptions options_;
};

}  // namespace lockstep::optim
