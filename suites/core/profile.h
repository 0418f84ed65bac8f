// SPDX-License-Identifier: Apache-2.0
// EngineProfile: who an engine is and what it can do, as a value that suites ask.
#pragma once
#include <cstdint>
#include <set>
#include <string>

#include "oracle/program/program.h"

namespace lockstep::suites {

// What only some engines have. A suite names the one that its law cannot do without.
enum class Flag : unsigned {
  kNone = 0,
  kTimeline = 1,     // logs what it did, so that a difference can be explained
  kRules = 2,        // its rules are the table of this process (engine/ops/rules)
  kClosedForm = 4,   // its random stream is the closed form of this process: single elements can be asked for
  kTraining = 8,     // trains the models of engine/nn
  kFaults = 16,      // faults can be planted in it
  kOverlap = 32,     // begins redistributions as a Case's option says (overlap.h)
  kSomeRanks = 64,   // its mesh may be of some ranks of a larger World
  kMemory = 128,     // the locals that it hands in are those that it holds, in its own memory (in_memory.h)
  kGradients = 256,  // the gradient of an input lies as the input does, replicated where that pends
  kAcross = 512      // redistributes by way of another mesh, as a Case's option says (across.h)
};
// "timeline", "rules", "closed form", "training", "faults", "overlap", "some ranks", "memory", "gradients",
// "across"
const char* name(Flag flag);

struct EngineProfile {
  std::string name, version;
  unsigned flags = 0;
  // Kinds of placement: R S I G P Pavg Pmin Pmax Pprod, and @ for shards in another order than left to right.
  std::set<std::string> placements{};
  std::set<std::string> dtypes{};  // f32 …
  std::set<std::string> ops{};     // with overloads
  // Of these three an empty set means all; of this one, none: "single-device" draws the one device's stream,
  // "forged-words" whatever words it is made of.
  std::set<std::string> random_policies{};
  int64_t program = 1;  // version of the Program's statements, as the token's
  int64_t most_mesh_dims = 4;
  int64_t most_ranks = 0;  // 0: any number

  bool has(Flag flag) const { return (flags & static_cast<unsigned>(flag)) == static_cast<unsigned>(flag); }
};

inline constexpr unsigned operator|(Flag a, Flag b) {
  return static_cast<unsigned>(a) | static_cast<unsigned>(b);
}
inline constexpr unsigned operator|(unsigned a, Flag b) {
  return a | static_cast<unsigned>(b);
}

// The size of the smallest World that has the ranks of the mesh.
int64_t least_world(const DeviceMesh& mesh);

// What the engine lacks to run this case, by the flag or list that says so: "placement I", "dtype bf16". ""
// if nothing.
std::string lacks(const EngineProfile& profile, const oracle::Case& c);

}  // namespace lockstep::suites
