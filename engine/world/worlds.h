// SPDX-License-Identifier: Apache-2.0
// Which Worlds there are, and the groups of ranks that meet in them. world.h says what a World is.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

// The ranks that meet in a collective, as one of them sees it.
struct Group {
  std::vector<int64_t> ranks;  // in an order that all of them know
  int64_t place = 0;           // of this rank, among them

  int64_t self() const { return ranks[static_cast<size_t>(place)]; }
};

class World;
using WorldPtr = std::shared_ptr<World>;

// Hosts all n ranks in the calling thread, in lockstep: no deadlock, no network, deterministic. Their
// tensors are all on `device`.
WorldPtr local_world(int64_t n, c10::Device device = c10::kCPU);

// Hosts `rank` of n ranks, without the others. What needs none of them runs: drawing a model's shards one
// rank at a time. A collective is an Error that says so.
WorldPtr lone_world(int64_t n, int64_t rank);

}  // namespace lockstep
