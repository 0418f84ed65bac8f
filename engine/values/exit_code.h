// SPDX-License-Identifier: Apache-2.0
// The exit codes of the program and which of several wins. A header alone, so that what needs no libtorch can
// include it.
#pragma once
#include <set>
#include <string>
#include <vector>

namespace lockstep {

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

struct ExitCodeMeaning {
  int code;
  const char* text;
};
// In the order in which they win.
inline constexpr ExitCodeMeaning kExitCodes[] = {
    {kUsage, "usage, or not available in this version"},
    {kStoreUnusable, "store unreadable, newer or corrupt"},
    {kHarnessError, "harness error"},
    {kFaultSurvived, "a planted fault or the canary survived"},
    {kNotMeasured, "not everything planned was measured"},
    {kDifference, "a difference, crash or hang"},
    {kNondeterminism, "non-determinism only"},
    {kSlower, "throughput regression only"},
    {kSkipped, "skipped: no such device, or the lane was refused"},
    {kAllEqual, "all equal or explained"},
};

// All of them, winners first; codes that nobody knows come last, by size.
inline std::vector<int> in_winning_order(std::set<int> codes) {
  std::vector<int> ordered;
  for (const auto& [code, text] : kExitCodes)
    if (codes.erase(code) > 0) ordered.push_back(code);
  ordered.insert(ordered.end(), codes.begin(), codes.end());
  return ordered;
}

// @post winning({}) == 0; a harness error where only codes are that nobody knows.
inline int winning(const std::set<int>& codes) {
  for (const auto& [code, text] : kExitCodes)
    if (codes.contains(code)) return code;
  return codes.empty() ? kAllEqual : kHarnessError;
}

inline const char* meaning(int code) {
  for (const auto& m : kExitCodes)
    if (m.code == code) return m.text;
  return "unknown";
}

}  // namespace lockstep
