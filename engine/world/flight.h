// SPDX-License-Identifier: Apache-2.0
// Flight recorder: each rank keeps its last exchanges, in memory that may outlive its process. What is
// written of them when something fails, and who did what, is in flight_log.h.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/values/per_rank.h"
#include "engine/world/worlds.h"

namespace lockstep {

// How far a rank has come with an exchange.
enum class FlightState : int64_t { kBegun, kWaited, kDone };

// One exchange of one rank, as it lies in memory: plain. A text that does not fit ends with "~".
struct FlightRecord {
  int64_t number;   // among those of the rank, from 1
  int64_t meeting;  // among those of its group, from 1, as errors say: "exchange 3 of ranks 0,1"
  FlightState state;
  int64_t sent, received;         // bytes, to and from others
  int64_t entry;                  // of the timeline, from 0, that is being made; -1: nothing is recorded
  char asker[48];                 // the op that asked, "aten::mm"; "": none
  char op[24];                    // "all_gather"
  char ranks[128];                // the group, "0,1,2,3"
  char sends[256], expects[256];  // by place of the group, without its own: "0:f32[2x3] 1:f32[2x3]+i64[]"
};

// The last exchanges of one rank: that of number n lies at (n - 1) % kLength.
struct FlightRing {
  static constexpr int64_t kLength = 64;
  int64_t count = 0;  // exchanges begun
  FlightRecord records[kLength];
};

// A ring for each rank of a World: of this process, or, with a file in memory, of all that have it, so that
// one of them reads what another did when it was killed.
class FlightMemory {
 public:
  // @pre fd < 0, or it may be made as long as the rings are and be mapped
  explicit FlightMemory(int64_t ranks, int fd = -1);
  ~FlightMemory();
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;

  // Throws Error for a rank beyond them.
  FlightRing& of(int64_t rank) const;
  // Forgets the exchanges of ranks below n.
  void clear(int64_t n) const;

 private:
  int64_t ranks_;
  FlightRing* rings_;
};

// @post forwards everything to `world`, unchanged, and keeps what its ranks do.
// @param told what is added to the error of an exchange that fails
WorldPtr recorded(
    WorldPtr world, std::shared_ptr<FlightMemory> memory,
    std::function<std::string()> told = [] { return std::string(); });

}  // namespace lockstep
