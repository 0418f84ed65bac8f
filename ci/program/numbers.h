// SPDX-License-Identifier: Apache-2.0
// Options that are numbers. The parser alone takes too large an integer for the largest there is, and -1 for
// 2^64 - 1.
#pragma once
#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>

namespace lockstep::program {

// A whole number from `least` to `most`, as written.
CLI::Validator whole_number(uint64_t least = 0, uint64_t most = std::numeric_limits<uint64_t>::max());
inline CLI::Validator whole_count() {
  return whole_number(1, std::numeric_limits<int64_t>::max());
}
// A finite number above 0.
CLI::Validator seconds_above_zero();

}  // namespace lockstep::program
