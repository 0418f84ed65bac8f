// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one mesh stand in another.
#pragma once
#include <map>
#include <vector>

#include "engine/values/device_mesh.h"

namespace lockstep {

// For each position of `mesh` that of its rank in `other`; -1: it is not there.
inline std::vector<int64_t> standing_in(const DeviceMesh& other, const DeviceMesh& mesh) {
  std::map<int64_t, int64_t> standing;
  for (int64_t p = 0; p < other.size(); ++p) standing.emplace(other.ranks()[static_cast<size_t>(p)], p);
  std::vector<int64_t> found;
  for (const int64_t rank : mesh.ranks()) {
    const auto at = standing.find(rank);
    found.push_back(at == standing.end() ? -1 : at->second);
  }
  return found;
}

}  // namespace lockstep
