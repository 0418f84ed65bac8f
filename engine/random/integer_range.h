// SPDX-License-Identifier: Apache-2.0
// Which integers random_ draws into a dtype: the bounds as the stock operator hands them to its kernel.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>
#include <utility>

#include "engine/stream/random_call.h"

namespace lockstep {

// The largest of the integers from 0 on that the dtype holds all of: 2^24 for float, 127 for int8, 1 for
// bool.
int64_t largest_exact_integer(c10::ScalarType dtype);

// The lowest and the highest integer that random_ may be asked to draw into the dtype.
std::pair<int64_t, int64_t> integer_limits(c10::ScalarType dtype);

// kRandint with [low, high), where high may wrap to the lowest int64, or kRandomBits.
struct IntegerRange {
  RandomKind kind;
  int64_t low, high;
  bool operator==(const IntegerRange&) const = default;
};

// random_(from, to); without `to`, up to the largest exact integer. A bound that a floating dtype would round
// out of the interval moves to the next value inside. Throws Error where the stock operator does.
IntegerRange integer_range(c10::ScalarType dtype, int64_t from, std::optional<int64_t> to);

}  // namespace lockstep
