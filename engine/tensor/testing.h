// SPDX-License-Identifier: Apache-2.0
// What tests of this folder share.
#pragma once
#include "engine/values/placement.h"

namespace lockstep {

// One placement of each kind that behaves differently, for each tensor dimension.
inline Placements placement_choices(int64_t ndim) {
  Placements result{Replicate{}, Partial{}};
  for (int64_t d = 0; d < ndim; ++d) {
    result.emplace_back(Shard{d});
    result.emplace_back(InterleavedShard{d, 2});
  }
  return result;
}

}  // namespace lockstep
