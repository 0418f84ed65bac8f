// SPDX-License-Identifier: Apache-2.0
// Chaos: what may happen to one process of --world gloo, at one exchange of each World: a machine that fails,
// a program that parts from the others, a wire that changes bits.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/world/worlds.h"

namespace lockstep {
struct Exchange;
}

namespace lockstep::suites {

struct ChaosKind {
  const char* name;
  const char* what;                       // one sentence
  bool fails = true;                      // false: all must go on as if nothing had happened
  void (*act)() = nullptr;                // to the process
  Exchange (*spoil)(Exchange) = nullptr;  // to what it asks for
};
std::span<const ChaosKind> chaos_kinds();

// "kill,rank=1,exchange=7,op=all_gather,when=wait". Exchanges are those of the rank with others, from 1; one
// that cannot show the kind, or is another collective than the one that is named, leaves it to the next.
struct Chaos {
  const ChaosKind* kind = nullptr;
  int64_t rank = 0, exchange = 1;
  std::string op;      // the collective; "": any
  bool waits = false;  // of what is done to the process: when the exchange is waited for, not when it begins
};
// Throws Error that lists the kinds and the form.
Chaos parse_chaos(const std::string& text);

// It in one process: around each World that hosts the rank, and on the wire to the others. What strikes is
// told first, on the standard error and in lockstep-chaos.log, in the folder for temporary files: a line with
// kind, rank, collective, numbers, groups, the op that asks, process and case, for ci/chaos to hold against
// the finding.
class Chaotic {
 public:
  explicit Chaotic(Chaos chaos);
  // Of the case with this token. @post `world` itself where it does not host the rank.
  WorldPtr around(WorldPtr world, const std::string& token) const;
  // What becomes of a message that leaves.
  void on_wire(std::string& message) const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::suites
