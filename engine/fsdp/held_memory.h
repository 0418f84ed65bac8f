// SPDX-License-Identifier: Apache-2.0
// HeldMemory: the bytes of parameters and gradients that fully_shard holds for each hosted rank: shards,
// casts of shards, what is gathered, gradients whole and reduced. Activations, moments of an optimizer and
// what a kernel needs for itself are not among them.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "engine/values/per_rank.h"

namespace lockstep::fsdp {

// Law: knows a storage until its memory is given back, whoever does that and when; hosted ranks that share
// memory count it each, as if they did not. So a group that stays gathered is seen, whatever Unit believes.
class HeldMemory {
 public:
  // These have been allocated, one for each hosted rank. What is known already is known once.
  void note(const PerRank<at::Tensor>& locals);
  // By hosted rank, the most bytes at once since the last call. What is held now counts for the next.
  PerRank<int64_t> take_peak_bytes();

 private:
  using Storage = c10::weak_intrusive_ptr<c10::StorageImpl>;
  struct Rank {
    std::vector<Storage> storages;
    int64_t peak = 0;
  };
  static int64_t held(Rank& rank);

  PerRank<Rank> ranks_;
};

}  // namespace lockstep::fsdp
