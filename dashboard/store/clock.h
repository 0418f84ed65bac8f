// SPDX-License-Identifier: Apache-2.0
// The time of day, as the store keeps it.
#pragma once
#include <chrono>
#include <cstdint>

namespace lockstep::dashboard {

// Milliseconds since the epoch, UTC.
inline int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace lockstep::dashboard
