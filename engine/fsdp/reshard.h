// SPDX-License-Identifier: Apache-2.0
// What becomes of a module's parameters between its forward and its backward pass.
#pragma once
#include <cstdint>
#include <optional>

namespace lockstep {

// Whether, under fully_shard, a module's parameters are cut again after its forward, and gathered anew for
// its backward: to each rank's part of all, or, by a number, to its part among as many neighbours along the
// mesh dimension, who gather from one another then (more memory, and a shorter way); or, by std::nullopt
// (FSDP2's None), but for those of the outermost module, whose backward begins where its forward ends.
struct ReshardAfterForward {
  ReshardAfterForward(bool on) : reshards(on) {}
  ReshardAfterForward(int to) : reshards(true), among(to) {}
  ReshardAfterForward(std::nullopt_t) {}
  std::optional<bool> reshards = {};
  std::optional<int64_t> among = {};
  // Whether so many ranks fall into such groups.
  bool fits(int64_t ranks) const { return !among || (*among > 0 && ranks % *among == 0); }
  // What that is on so many ranks: a rank by itself has nothing to gather, and keeps all; all of them keep no
  // more than their parts (FSDP2).
  ReshardAfterForward on(int64_t ranks) const {
    if (!among || (*among > 1 && *among < ranks)) return *this;
    return *among != 1;
  }
};

}  // namespace lockstep
