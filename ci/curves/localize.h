// SPDX-License-Identifier: Apache-2.0
// Where two recorded runs of any engine first part, from the digests that they logged.
#pragma once
#include <string>
#include <vector>

#include "dashboard/store/rows.h"

namespace lockstep::curves {

struct Localized {
  dashboard::Divergence row{};  // curve and reference are the paths
  std::string text{};           // what it means, in a sentence or two
  std::vector<std::string> notes{};
  int64_t steps = 0;  // in common
};

// The first step, in it the smallest position within a rank's ops, there by kind, then by rank, at which the
// logs differ:
//   "sequence"  another op (or phase) stands there than in the reference, or one more
//   "missing"   an op of the reference is not there, or the step ends before it
//   "input"     the op is the same and an input differs: what made it was not logged
//   "output"    all inputs agree, the op is the same and an output differs: the op is at fault
// Sequences are compared up to their first mismatch; what was lost, added or moved there is what align() says
// of the rest of the rank's step. At one position "input" goes before "output": an op that communicates has
// outputs on every rank that depend on the inputs of all. Steps before the first and after the last that both
// have are told, not compared.
Localized localize(const std::string& reference, const std::string& candidate);

}  // namespace lockstep::curves
