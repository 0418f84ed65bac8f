// SPDX-License-Identifier: Apache-2.0
// How likely it is that a rate rose by chance alone.
#pragma once
#include <cstdint>

namespace lockstep::gate {

// So many of all that were met.
struct Rate {
  int64_t hits = 0, of = 0;
};

// Fisher's exact test, one-sided. Law: if both sides are draws of one rate, the hits of both fall on the
// candidate's draws as every choice of as many of them does, so that it has `candidate.hits` or more with the
// chance
//   sum over k >= candidate.hits of C(candidate.of, k) C(baseline.of, hits - k) / C(candidate.of +
//   baseline.of, hits)
// where hits = candidate.hits + baseline.hits. No approximation; 1 where a side has nothing.
// @pre 0 <= hits <= of on each side.
double chance_of_more(Rate candidate, Rate baseline);

}  // namespace lockstep::gate
