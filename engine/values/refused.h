// SPDX-License-Identifier: Apache-2.0
// Refused: what one device would do and the engine, by its documentation, does not.
#pragma once
#include <iterator>
#include <string>
#include <utility>

#include "engine/values/error.h"

namespace lockstep {

enum class Refusal {
  kView,          // a view would have to be of a copy
  kInPlace,       // what an in-place op writes to would have to move
  kStaleRead,     // a list op would read the older state of what it writes
  kExplicit,      // a redistribution that ExplicitRedistribution forbids
  kPlain,         // a plain tensor where a DTensor belongs
  kMeshes,        // DTensors of two meshes, or of two Worlds
  kNoRule,        // an op without a sharding rule
  kNoStream,      // an op that draws and has no stream here
  kOut,           // an `out` whose memory cannot take the result
  kGenerator,     // a torch::Generator beside a DTensor
  kNoReduction,   // a Partial whose reduction its dtype does not have
  kMixedPartial,  // Partials of one tensor that do not commute
  kInFlight,      // a write to what a redistribution still sends
};
// In the order of Refusal.
inline constexpr const char* kRefusals[] = {
    "view",         "in place",   "stale read",   "explicit redistribution",
    "plain tensor", "two meshes", "no rule",      "no stream",
    "out",          "generator",  "no reduction", "mixed partial",
    "in flight"};
static_assert(std::size(kRefusals) == static_cast<size_t>(Refusal::kInFlight) + 1);
// "view", "in place", …: stable, the store counts by it.
inline const char* name(Refusal why) {
  return kRefusals[static_cast<size_t>(why)];
}
// The op runs on other placements of the same tensors. A Program is written so that it meets no other
// refusal.
inline bool by_placements(Refusal why) {
  return why == Refusal::kView || why == Refusal::kInPlace || why == Refusal::kStaleRead;
}

struct Refused : Error {
  // The message is "[op] problem" and the remedy; `problem` ends with what joins the two.
  Refused(Refusal reason, std::string who, std::string placed, const std::string& problem,
          std::string instead)
      : Error(concat("[", who, "] ", problem, instead)),
        why(reason),
        op(std::move(who)),
        specs(std::move(placed)),
        remedy(std::move(instead)) {}
  Refusal why;
  std::string op;      // as it is dispatched, with overload
  std::string specs;   // of its tensors, as far as they are known
  std::string remedy;  // what to do instead
};

}  // namespace lockstep
