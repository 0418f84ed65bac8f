// SPDX-License-Identifier: Apache-2.0
// GlooGang: ranks that reduce by libtorch's ProcessGroupGloo, all of them in this process.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "engine/values/placement.h"

namespace lockstep {

class GlooGang {
 public:
  explicit GlooGang(int64_t ranks);
  ~GlooGang();

  // By rank; in place.
  void all_reduce(ReduceOp op, const std::vector<at::Tensor>& tensors);
  // By rank: a contiguous buffer of as many pieces as there are ranks, and where the rank's own goes.
  void reduce_scatter(ReduceOp op, const std::vector<at::Tensor>& sent, const std::vector<at::Tensor>& into);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
