// SPDX-License-Identifier: Apache-2.0
// How one sequence becomes another by the fewest insertions and deletions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::curves {

// Elements that are not paired: [from_a, to_a) is gone and [from_b, to_b) stands there instead. One of the
// two may be empty.
struct Hunk {
  size_t from_a = 0, to_a = 0, from_b = 0, to_b = 0;
  bool operator==(const Hunk&) const = default;
};

// Memory grows with the square of the edits: 34 MB at the most.
inline constexpr size_t kMostEdits = 4096;
inline constexpr size_t kMostComparisons = 100'000'000;

// Myers' greedy algorithm (An O(ND) difference algorithm and its variations, Algorithmica 1, 1986), after
// what both begin and end with is set aside.
// @post outside of the hunks the two are equal, element by element; no other hunks have fewer elements; the
// hunks are in order and do not touch. Empty if that took more than kMostEdits edits or kMostComparisons.
std::optional<std::vector<Hunk>> align(std::span<const uint64_t> a, std::span<const uint64_t> b);

}  // namespace lockstep::curves
