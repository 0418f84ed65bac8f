// SPDX-License-Identifier: Apache-2.0
// What stock libtorch accepts of a random operator on CUDA: dtypes, ranges, and the sizes beyond which its
// kernels' 32-bit indices overflow.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/stream/random_call.h"

namespace lockstep::oracle {

// The operator as a user knows it: "aten::uniform_".
std::string_view name_of(RandomKind kind);

// random_() without a range: how many integers from 0 the dtype holds exactly; for int64 2^63.
uint64_t exact_integers(c10::ScalarType dtype);

struct Bounds {
  bool all_bits = false;      // every one of the 2^64 integers; else
  int64_t low = 0, high = 0;  // [low, high), where high may wrap to the lowest int64
  bool operator==(const Bounds&) const = default;
};

// random_(from, to). Throws Error for an empty range and one that the dtype does not hold.
Bounds bounds_of_random(c10::ScalarType dtype, int64_t from, std::optional<int64_t> to);

// Throws Error, naming the operator, the value and what to do, unless stock has a kernel for the call.
void check_supported(const RandomCall& call);

}  // namespace lockstep::oracle
