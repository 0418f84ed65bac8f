// SPDX-License-Identifier: Apache-2.0
// What `lockstep bench` does: checks bits, measures in turns, confirms, and then writes all of it or nothing.
#pragma once
#include <string>
#include <vector>

#include "ci/program/bench_table.h"

namespace lockstep::program {

struct BenchOptions {
  std::string db = "lockstep.db";
  std::string pattern;  // only series with this text in their name
  std::string against;  // path of a baseline; empty: none
  // The program that is measured: this very one, also if its file is replaced meanwhile.
  std::vector<std::string> candidate{"/proc/self/exe"};
  int rounds = 0;         // 0: 20, or 2 if quick
  double patience = 300;  // seconds for one answer
  bool quick = false, no_instructions = false;
  bool shared = false;  // only series that the baseline has too
  std::string command;  // as typed
};

// @post a run with every sample is in the store; nothing is if anything throws. Throws suites::WrongBits if a
// body does not give the bits that it should, suites::ArmError if a program cannot be measured.
BenchResult bench(BenchOptions options);

}  // namespace lockstep::program
