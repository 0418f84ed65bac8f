// SPDX-License-Identifier: Apache-2.0
// What `lockstep bench` prints.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "ci/perf/judge_series.h"
#include "dashboard/store/rows.h"
#include "suites/bench/turns.h"

namespace lockstep::program {

struct BenchResult {
  dashboard::Run run;
  std::string db;
  std::vector<dashboard::Series> series;
  std::vector<suites::Sample> samples;
  std::vector<perf::SeriesJudgement> judgements;  // empty: nothing was compared
  std::set<int> codes;
  int code = 0;
};

// Slower, or more work counted: 4. Not measured: 5. Faster, less work or the same: none.
std::set<int> codes_of(const std::vector<perf::SeriesJudgement>& judgements);

std::string bench_table(const BenchResult& result);
std::string bench_json(const BenchResult& result);

}  // namespace lockstep::program
