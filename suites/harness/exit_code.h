// SPDX-License-Identifier: Apache-2.0
// The exit codes of the program and which of several wins.
#pragma once
#include <set>
#include <string>

namespace lockstep::suites {

enum ExitCode {
  kAllEqual = 0,    // everything equal or explained, and everything planned was measured
  kDifference = 1,  // also crash, hang, golden mismatch, curve divergence, worse verdict class
  kUsage = 2,       // or not available in this version
  kHarnessError = 3,
  kSlower = 4,          // throughput regression only
  kNotMeasured = 5,     // also lost coverage, expired mute, wrong binary or commit, unblessed improvement
  kNondeterminism = 6,  // only
  kStoreUnusable = 7,   // unreadable, newer or corrupt
  kFaultSurvived = 8,   // a planted fault or the canary
  kSkipped = 77,        // no such device, lane refused
};

// If several apply, the first of 2, 7, 3, 8, 5, 1, 6, 4, 77, 0. @post winning({}) == 0
int winning(const std::set<int>& codes);
const char* meaning(int code);

}  // namespace lockstep::suites
