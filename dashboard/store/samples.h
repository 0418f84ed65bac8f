// SPDX-License-Identifier: Apache-2.0
// What was measured, run by run, for whoever judges it: the samples behind the views v_series and v_samples,
// without the sums over a whole store that these make.
#pragma once
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {

struct MeasuredRun {
  int64_t id = 0;  // in this file
  std::string name{}, commit{}, build_hash{}, cpu{};
  int64_t cores = 0, started_ms = 0;
};

// The runs with at least one sample, newest first.
std::vector<MeasuredRun> measured_runs(const Store& store);

struct Sample {
  std::string arm{}, worker{};
  int64_t seq = 0;
  double value = 0;
};

struct MeasuredSeries {
  Series series{};  // timed and less is better where the run does not say
  std::vector<Sample> samples{};
};

// The series of one run by name, their samples by arm, worker and round.
std::vector<MeasuredSeries> measured_series(const Store& store, int64_t run);

}  // namespace lockstep::dashboard
