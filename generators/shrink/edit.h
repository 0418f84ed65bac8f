// SPDX-License-Identifier: Apache-2.0
// What shrinking tries. Edits change the structure of a Case: calls and inputs are struck out, values
// substituted, and the rest renumbered. Simplifications keep its calls.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "oracle/program/program.h"

namespace lockstep::generators {

struct Edit {
  std::set<size_t> dropped_calls;
  std::set<size_t> ungraded;                   // inputs that no longer require grad
  std::map<int64_t, oracle::Ref> substitutes;  // of the results of dropped calls: an older value …
  std::map<int64_t, oracle::Input> fresh;      // … or a new input, where its call put it
  std::map<size_t, size_t> dropped_elements;   // call -> which element of its lists
  bool keeps_inputs = false;                   // also those that nothing reads any more
};

// The Case with the edit applied; inputs that nothing reads any more are dropped, if they may be. nullopt
// where a call that stays reads a value that is gone.
std::optional<oracle::Case> apply(const oracle::Case& c, const Edit& edit);

// What these return need not run.
std::vector<oracle::Case> simpler_meshes(const oracle::Case& c);  // fewer dimensions, fewer ranks, no names
std::vector<oracle::Case> simpler_placements(const oracle::Case& c);  // Replicate, Shard, left to right
std::vector<oracle::Case> smaller_shapes(const oracle::Case& c);      // one size everywhere, or of one input
std::vector<oracle::Case> simpler_values(const oracle::Case& c);  // f32, contiguous, small integers, seed 0

}  // namespace lockstep::generators
