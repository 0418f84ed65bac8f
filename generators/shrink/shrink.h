// SPDX-License-Identifier: Apache-2.0
// Shrinking: from a Case that fails to a smaller one that fails alike. Every candidate is a Case that
// libtorch runs, and strictly less complex, so that shrinking ends; all is deterministic.
#pragma once
#include <functional>

#include "oracle/program/program.h"

namespace lockstep::generators {

// Compared from left to right: calls, ranks, mesh dimensions, inputs, elements, placements other than R,
// dtypes, values …
std::vector<int64_t> complexity(const oracle::Case& c);

// Simpler cases, the boldest first: fewer calls, fewer ranks, simpler placements, smaller shapes, f32, plain
// values.
// @post each is valid, runs on plain tensors, and has a smaller complexity
std::vector<oracle::Case> candidates(const oracle::Case& c);
// As candidates, of cases that are no Programs. @pre none leads back
using Simpler = std::vector<oracle::Case> (*)(const oracle::Case& c);

struct Shrunk {
  oracle::Case smallest;
  int64_t tried = 0;  // calls of still_fails
  int64_t accepted = 0;
  bool minimal = false;  // no candidate fails any more; else the budget ended
};

// Greedy: takes the first simpler case that fails alike, tells `improved`, and starts again from it.
// `still_fails` is called at most `budget` times. @pre still_fails(start)
Shrunk shrink(
    const oracle::Case& start, const std::function<bool(const oracle::Case&)>& still_fails, int64_t budget,
    Simpler simpler = candidates,
    const std::function<void(const oracle::Case&)>& improved = [](const oracle::Case&) {});

}  // namespace lockstep::generators
