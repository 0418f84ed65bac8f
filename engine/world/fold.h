// SPDX-License-Identifier: Apache-2.0
// The fold that every reduction across ranks is: term after term, in rank order, each node rounded.
#pragma once
#include <ATen/core/Tensor.h>

#include "engine/values/placement.h"

namespace lockstep {

// Takes terms as they come and keeps none of them.
class Fold {
 public:
  // @param into the memory in which they are folded, of a term's form; undefined: its own. Not of an average.
  explicit Fold(ReduceOp op, at::Tensor into = {})
      : op_(op), is_placed_(into.defined()), value_(std::move(into)) {}
  void add(const at::Tensor& term);
  // @pre at least one term. Avg divides the root by their number.
  at::Tensor result() const;

 private:
  void put(at::Tensor value);

  ReduceOp op_;
  bool is_placed_;
  at::Tensor value_;
  int64_t terms_ = 0;
};

// value / n, rounded once, on every device: a CUDA kernel multiplies by the reciprocal of a number.
at::Tensor divided(const at::Tensor& value, int64_t n);

}  // namespace lockstep
