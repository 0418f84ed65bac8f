// SPDX-License-Identifier: Apache-2.0
// The harness loop: plans a run, gives its cases to workers, joins their stores, and judges the whole.
#pragma once
#include <functional>
#include <string>

#include "suites/harness/coverage.h"
#include "suites/harness/options.h"
#include "suites/harness/sequence.h"

namespace lockstep::suites {

// Rounds of a run that names neither cases nor time.
inline constexpr int64_t kDefaultRounds = 300;

// What a run means to do.
struct RunPlan {
  EngineProfile engine;  // who runs it
  std::vector<const Suite*> chosen;
  std::vector<const Suite*> left_out;  // asked for, but the engine lacks what they need
  int64_t cases = 0;  // numbers of the whole sequence, all shards; kEndless: until the time is up
  std::map<std::string, int64_t> least;  // suite -> cases that must be measured in this shard
  Leasts coverage;                       // labels, ops and pairs that they must have had
  bool draws = false;                    // cases of the suite `random` are among them
  bool all_random_pairs = false;         // and so many that they must have every pair of its space
};
// Throws Error for an unknown suite or engine.
RunPlan plan(const RunOptions& options);

struct RunListener {
  std::function<void(const RunOptions& options, const RunPlan& plan, const std::string& run)> started;
  std::function<void(int64_t done, int64_t planned, double seconds)>
      progress;  // planned 0: no count is known
  std::function<void(const std::string& text)> message;
};

// Runs, records, merges. @post the database holds every committed case of the run, and nothing of a
// worker's file remains beside it. Throws Error (usage), StoreError, Broken.
RunSummary run(RunOptions options, const RunListener& listener);

}  // namespace lockstep::suites
