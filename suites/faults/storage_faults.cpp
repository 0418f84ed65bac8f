// SPDX-License-Identifier: Apache-2.0
// Faults of replicas that share storage: as if it were shared for good, and a rank that goes its own way.
#include <ATen/ATen.h>

#include "engine/tensor/dtensor.h"
#include "engine/world/bits.h"
#include "oracle/program/statements.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

// A write through one rank's copy shows on the others.
void shared_for_good(const at::Tensor& moved) {
  const auto& locals = local_tensors(moved);
  for (size_t r = 1; r < locals.size(); ++r)
    for (size_t first = 0; first < r; ++first)
      if (locals[r].numel() > 0 && locals[r].sizes() == locals[first].sizes() &&
          same_bits(locals[r], locals[first])) {
        locals[r].set_(locals[first]);
        break;
      }
}

// What the last rank computes of what it shares with others is its own.
void own_way(const at::Tensor& moved) {
  const auto& local = local_tensors(moved).back();
  if (local.numel() > 0) static_cast<char*>(local.mutable_data_ptr())[0] ^= 1;
}

bool writes_after_a_move(const oracle::Case& c) {
  return many_ranks(c) && writes(c) && calls(oracle::kRedistribute)(c);
}

}  // namespace

std::vector<Fault> storage_faults() {
  return {
      {96, "storage-shared-for-good", "K4", "replicas share storage after one of them is written", "program",
       3000, 3, writes_after_a_move, with_moved(shared_for_good)},
      {97, "rank-goes-its-own-way", "K14", "one rank computes otherwise what it shares with others",
       "redistribute", 300, 1, many_ranks, with_moved(own_way)},
  };
}

}  // namespace lockstep::suites::plant
