// SPDX-License-Identifier: Apache-2.0
// Group: the ranks that meet in a collective, as one of them sees it.
#pragma once
#include <cstdint>
#include <vector>

namespace lockstep {

struct Group {
  std::vector<int64_t> ranks;  // in an order that all of them know
  int64_t place = 0;           // of this rank, among them

  int64_t self() const { return ranks[static_cast<size_t>(place)]; }
};

}  // namespace lockstep
