// SPDX-License-Identifier: Apache-2.0
// What `lockstep bench` prints, and what it can say without statistics: counts are compared exactly.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/store/rows.h"
#include "suites/bench/turns.h"

namespace lockstep::program {

struct BenchResult {
  dashboard::Run run;
  std::string db;
  bool compared = false;  // in turns with a baseline
  std::vector<dashboard::Series> series;
  std::vector<suites::Sample> samples;
};

// The samples of one arm of a series, by round.
std::vector<double> values_of(const std::vector<suites::Sample>& samples, std::string_view series,
                              std::string_view arm);
// @pre not empty
double median(std::vector<double> values);

// Slower: more work is counted. Not measured: counts of one binary differ, or timed series wait for
// `ci/speed`.
std::set<int> codes_of(const BenchResult& result);

std::string bench_table(const BenchResult& result);
std::string bench_json(const BenchResult& result);

}  // namespace lockstep::program
