// SPDX-License-Identifier: Apache-2.0
// What a worker process must know of the run whose cases it judges.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "suites/harness/options.h"

namespace lockstep::suites {

// Cases that a run has recorded already: suite name and index.
using Recorded = std::map<std::string, std::set<int64_t>>;

struct CaseJob {
  RunOptions options;
  dashboard::Run run;               // as it begins
  std::vector<std::string> chosen;  // suites, in the order of the sequence
  std::vector<dashboard::KeptCase> kept;
  Recorded recorded;
};

// @post read_job(bytes_of(job)) is the job.
std::string bytes_of(const CaseJob& job);
CaseJob read_job(const std::string& bytes);

}  // namespace lockstep::suites
