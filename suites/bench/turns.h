// SPDX-License-Identifier: Apache-2.0
// Binaries measured in turns, so that whatever slows the machine slows all of them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "suites/bench/arm.h"

namespace lockstep::suites {

struct NamedArm {
  std::string name;                  // as the store calls it
  std::vector<std::string> command;  // the program, and what precedes its arguments
};

struct TurnOptions {
  int rounds = 20;
  double least = 0.005;   // seconds of work in a sample, at least
  double patience = 300;  // seconds for one answer
  uint64_t seed = 0;      // of the order of arms
  bool shared = false;    // only series that every arm has
  std::function<void(int done, int rounds)> on_round = [](int, int) {};
};

// A value with its series and arm. The k-th of a series and arm belongs to round k.
struct Sample {
  std::string series, arm;
  std::string unit;
  double value = 0;
};

// The series of the first arm whose name contains `pattern`; the other arms may lack some, unless only shared
// ones are asked for.
// @post every arm has answered check() for each of these that it knows. Throws WrongBits if one does not
// hold.
std::vector<dashboard::Series> checked_series(const std::vector<NamedArm>& arms, const std::string& pattern,
                                              const TurnOptions& options);

// Rounds of one sample of each timed series and arm. In each round every arm is a new process, for what a
// process draws once (addresses, pages) would pass for a difference of the binaries; for each series the arms
// take turns in an order drawn anew.
std::vector<Sample> take_turns(const std::vector<NamedArm>& arms,
                               const std::vector<dashboard::Series>& series, const TurnOptions& options);

// Each counted series and arm, twice, in two processes: a count that is not the same in both is none.
std::vector<Sample> count_twice(const std::vector<NamedArm>& arms,
                                const std::vector<dashboard::Series>& series, const TurnOptions& options);

// "" where the instructions of a function can be counted here, else why not.
std::string why_no_instructions();
// Instructions of one call of each timed series that has one, in each arm. @pre why_no_instructions().empty()
std::vector<Sample> count_instructions(const std::vector<NamedArm>& arms,
                                       const std::vector<dashboard::Series>& series,
                                       const TurnOptions& options);

}  // namespace lockstep::suites
