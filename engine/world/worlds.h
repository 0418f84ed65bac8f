// SPDX-License-Identifier: Apache-2.0
// Which Worlds there are, and the groups of ranks that meet in them. world.h says what a World is.
#pragma once
#include <c10/core/Device.h>

#include <chrono>
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

// Hosts this process's ranks of the World that torchrun, mpirun or srun started: `ranks_each` in each of its
// processes, which meet at MASTER_ADDR and MASTER_PORT and check all collectives first. A process that is not
// heard for `patience` is lost. Throws Error that says what the environment lacks, or which process does not
// come. All processes make as many Worlds, in the same order.
WorldPtr world_from_environment(int64_t ranks_each = 1,
                                std::chrono::milliseconds patience = std::chrono::minutes(10));

}  // namespace lockstep
