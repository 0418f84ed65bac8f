// SPDX-License-Identifier: Apache-2.0
// Adversaries: engines that are wrong and say so of themselves that it agrees. Values, timeline and declared
// order fit each other; what a judge believes instead of asking, they say. They are the holes of judges that
// were, and none is to be made again. Law: wherever an adversary comes to another result than the honest
// engine, the verdict is a failure.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "suites/faults/tables.h"

namespace lockstep::suites {

struct Adversary {
  std::string name;
  const char* hole;                 // what a judge believes that lets it pass, in a few words
  std::vector<std::string> tokens;  // cases in which it acts
  const char* suite = "";           // whose generated cases it meets besides; empty: none
  Touches touches = any;            // which of them
  Plant plant;
  bool of_nothing = false;  // it lies of what has no elements, too
};
std::span<const Adversary> adversaries();

// Whether the two came to other results: placements, layouts, memory, bits or traffic of random numbers; what
// is no result at all is another.
bool differ(const EngineResult& a, const EngineResult& b);

namespace plant {
std::vector<Adversary> liars();    // rules that are wrong, and what follows from them
std::vector<Adversary> forgers();  // results and timelines that are made up
std::vector<Adversary> tellers();  // timelines that tell of what was not
std::vector<Adversary> layers();   // right values that lie elsewhere
std::vector<Adversary> edges();    // another Program, where tensors enter and leave the mesh
}  // namespace plant
}  // namespace lockstep::suites
