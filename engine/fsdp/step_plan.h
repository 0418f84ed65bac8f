// SPDX-License-Identifier: Apache-2.0
// StepPlan: what one training step under fully_shard moves between ranks, and what a rank holds at most, from
// the sizes of tensors alone. Pure arithmetic, in bytes; nothing runs.
#pragma once
#include "engine/fsdp/mixed_precision.h"
#include "engine/fsdp/planner.h"
#include "engine/fsdp/reshard.h"

namespace lockstep::fsdp {

// The parameters that one call of fully_shard cuts, of modules that are alike and run one after the other.
struct StepGroup {
  std::vector<BlockTensor> tensors;  // in the order of named_parameters()
  int64_t count = 1;                 // of such modules
  // Of the outermost module: so many of its tensors are used before the modules within it, the others after
  // them. Then gradients come in the other order.
  int64_t before = 0;
};

struct StepOptions {
  int64_t shards = 1;    // ranks that cut a parameter among them
  int64_t replicas = 1;  // of HSDP: so many times as many ranks, which hold the same
  Order order = Order::kDefault;
  c10::ScalarType dtype = c10::ScalarType::Float;  // of parameters that are cut, and of their gradients
  MixedPrecisionPolicy policy = {};
  ReshardAfterForward reshard_after_forward = true;
  // Each module is told to prefetch so many that run after it, on the way forward and back, the outermost
  // too. Untold, it prefetches one on the way back.
  int64_t prefetch = 0;
};

// What a collective sends from rank to rank.
struct Moved {
  int64_t calls = 0;          // 0: there is none
  int64_t bytes = 0;          // of all ranks together
  std::vector<int64_t> sent;  // by shard, of one rank that has it
};
struct Moves {
  Moved gather_forward, gather_backward, reduce_scatter, all_reduce;
};
inline constexpr Moved Moves::*kMoves[] = {&Moves::gather_forward, &Moves::gather_backward,
                                           &Moves::reduce_scatter, &Moves::all_reduce};

// Bytes of a rank.
struct Held {
  int64_t shards = 0;     // of parameters, padding included
  int64_t gathered = 0;   // and what is cast to be gathered
  int64_t gradients = 0;  // whole: a rank's own terms
  int64_t reduced = 0;    // gradients of its shards, padding included, and on the way there
  int64_t total() const { return shards + gathered + gradients + reduced; }
};

struct GroupStep {
  BufferPlan plan;
  Moves moves;  // of each of its modules
};

struct StepPlan {
  std::vector<GroupStep> groups;  // as given
  Moves moves;                    // of all modules
  Held peak;                      // of any rank, when it holds the most
};

// The first group is the outermost module, which may have no tensors; the others are modules within it, in
// the order in which they run. Law: forward and backward of modules so wrapped send what CountingWorld counts
// and hold what HeldMemory does, byte for byte, rank by rank: a module is gathered once forward, once
// backward where it was cut, and reduced once: to shards until the next reduction begins, over replicas until
// the one after that. That is so where all parameters require gradients and have none yet, modules within
// have an input that requires one, and gradients come as terms of ranks. (libtorch's rms_norm in 16 bits
// casts a sum that it made in float32; so that is reduced before it comes, by itself and in float32.) Throws
// Error for what plan() refuses, more than 65,536 ranks, dtypes that are not floating, negative numbers and
// products that no int64 holds.
StepPlan plan_step(const std::vector<StepGroup>& groups, const StepOptions& options);

}  // namespace lockstep::fsdp
