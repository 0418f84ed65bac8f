// SPDX-License-Identifier: Apache-2.0
// The bounds of random_ as stock's operator moves and checks them before it calls a kernel.
#pragma once
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>

namespace lockstep::oracle {

struct Bounds {
  bool all_bits = false;      // every one of the 2^64 integers; else
  int64_t low = 0, high = 0;  // [low, high), where high may wrap to the lowest int64
  bool operator==(const Bounds&) const = default;
};

// random_(from, to). Throws Error for an empty range and one that the dtype does not hold.
Bounds bounds_of_random(c10::ScalarType dtype, int64_t from, std::optional<int64_t> to);

}  // namespace lockstep::oracle
