// SPDX-License-Identifier: Apache-2.0
// PerRank<T>: one value for each rank of a mesh that this process hosts, in the order of their mesh
// positions.
#pragma once
#include <vector>

namespace lockstep {

template <class T>
using PerRank = std::vector<T>;

}  // namespace lockstep
