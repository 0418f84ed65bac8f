// SPDX-License-Identifier: Apache-2.0
// The folds of an all-reduce. A group's sum is folded once for those of its hosted ranks to which the very
// tensors have come that came to its first; a rank to which another one comes folds for itself. Nothing is
// taken for granted: each arrival is looked at.
#pragma once
#include <optional>

#include "engine/values/per_rank.h"
#include "engine/world/collectives.h"
#include "engine/world/fold.h"

namespace lockstep {

class GroupFold {
 public:
  // @param terms what each hosted rank sends, which does not change while it is in flight
  GroupFold(const Groups& groups, ReduceOp op, PerRank<at::Tensor> terms);
  GroupFold(const GroupFold&) = delete;
  GroupFold& operator=(const GroupFold&) = delete;

  // The term of this place of its group has come to hosted rank i, whose places ascend.
  void arrive(size_t i, size_t place, const at::Tensor& term);
  // For each hosted rank. Those with the same bits share storage.
  PerRank<at::Tensor> results() const;

 private:
  struct Lead {
    std::vector<const at::Tensor*> sent;  // by place; null: by a rank that is not hosted here
    std::vector<bool> as_sent;            // by place: whether this tensor came to the first rank
  };

  at::Tensor folded(size_t i) const;

  const ReduceOp op_;
  const PerRank<at::Tensor> terms_;
  PerRank<size_t> first_;               // the first hosted rank of its group
  PerRank<Lead> leads_;                 // of first ranks
  PerRank<std::optional<Fold>> folds_;  // of first ranks, and of those that have parted from theirs
};

}  // namespace lockstep
