// SPDX-License-Identifier: Apache-2.0
// How many ranks a user may ask one process to host. Beyond, hours or all memory are more likely than an
// answer.
#pragma once
#include <cstdint>

namespace lockstep::suites {

inline constexpr int64_t kMostRanks = 1024;

// Processes of the world "gloo", if nobody says how many.
inline constexpr int64_t kDefaultProcesses = 2;

}  // namespace lockstep::suites
