// SPDX-License-Identifier: Apache-2.0
// Library: reductions across ranks by a collective of libtorch's own, as users run them, in whatever order
// that has. engine/layout/library_order.h says which order, and for what.
#pragma once
#include "engine/values/placement.h"
#include "engine/world/collectives.h"

namespace lockstep {

class Library {
 public:
  virtual ~Library() = default;
  // For each hosted rank a contiguous tensor, of one form within its group, which becomes the reduction.
  virtual void all_reduce(const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& tensors) = 0;
  // For each hosted rank a contiguous buffer of a piece for each rank of its group, and where its own goes.
  virtual void reduce_scatter(const Groups& groups, ReduceOp op, const PerRank<at::Tensor>& sent,
                              const PerRank<at::Tensor>& into) = 0;
};

// The same World, except that Gloo reduces. Throws Error unless it hosts every rank.
WorldPtr reducing_by_gloo(WorldPtr world);

}  // namespace lockstep
