// SPDX-License-Identifier: Apache-2.0
// Edit: structural changes of a Case. Calls and inputs are struck out, values substituted, and the rest
// renumbered.
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
  std::map<int64_t, oracle::Input> fresh;      // … or a new input, Replicate
  std::map<size_t, size_t> dropped_elements;   // call -> which element of its lists
};

// The Case with the edit applied; inputs that nothing reads any more are dropped too. nullopt where a call
// that stays reads a value that is gone.
std::optional<oracle::Case> apply(const oracle::Case& c, const Edit& edit);

// The first value that each call defines.
std::vector<int64_t> first_results(const oracle::Program& program);

}  // namespace lockstep::generators
