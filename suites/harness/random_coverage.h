// SPDX-License-Identifier: Apache-2.0
// Which pairs of the random space (generators/random/random_space.h) the cases of a run had: operator, dtype,
// placement, evenness and device-model regime, each with each.
#pragma once
#include <string>
#include <vector>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "generators/random/random_space.h"
#include "suites/harness/options.h"

namespace lockstep::suites {

struct RandomCoverage {
  int64_t exist = 0, met = 0;
  std::vector<std::string> missing;  // pairs that exist and that no judged case had
};
// Of the run's judged cases of the suite `random`, read off their tokens; what gave up or broke is none.
RandomCoverage random_coverage(const dashboard::Store& store, const std::string& run);

// "random: 1800 of 1800 pairs of operator, dtype, …"
std::string text_of(const RandomCoverage& coverage);
// The pairs that do not exist, counted and listed by reason: values that lack the same ones share a line.
std::vector<std::string> absent_pairs();

// A pair that is missing is coverage that lacks: recorded as a gate, told in the summary, exit code 5.
void judge(const RandomCoverage& coverage, RunSummary& summary, dashboard::Recorder& recorder);

// Cases from which on the suite has every pair.
int64_t enough_random_cases();

}  // namespace lockstep::suites
