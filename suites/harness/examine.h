// SPDX-License-Identifier: Apache-2.0
// What the harness does with a case that failed: run it again on both sides, then shrink it within its
// bucket.
#pragma once
#include <string>
#include <vector>

#include "suites/core/suite.h"
#include "suites/harness/worker_pool.h"

namespace lockstep::suites {

// Judges again; a failure that does not repeat itself is Flaky, and the side that changed its bits is named.
// @post a Failed is returned as it was if every repetition gives the same bucket.
Outcome judge_and_repeat(const Suite& suite, const oracle::Case& c, EngineUnderTest& engine);

// The outcome of a case that took its process along.
Failed lost_outcome(const oracle::Case& c, const Lost& lost);

inline constexpr int64_t kShrinkBudget = 400, kCrashBudget = 60;  // cases

struct Minimal {
  oracle::Case c;
  int64_t steps = 0;  // improvements taken
  bool budget_ended = false;
};

// @post judging result.c fails in `failure`'s bucket; no more than `budget` cases were judged.
Minimal shrink_failure(const Suite& suite, const oracle::Case& c, const Failed& failure,
                       EngineUnderTest& engine, int64_t budget = kShrinkBudget);

// The same for a case that crashed. `judge`, with a token as one more argument, is the command that judges
// it: a process for each candidate. A case that does not crash there is returned as it is.
Minimal shrink_crash(const oracle::Case& c, const std::vector<std::string>& judge,
                     int64_t budget = kCrashBudget);

}  // namespace lockstep::suites
