// SPDX-License-Identifier: Apache-2.0
// A run as its database tells it: the plan as JSON, the run to resume, the summary. Knows views alone.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "suites/harness/run.h"

namespace lockstep::suites {

// The label of a case in which so many ops without a rule ran whole; the summary adds them up.
std::string fallback_label(int64_t ops);

// {"suites":[{"name","least"}],"labels":[…],"ops":[…],"pairs":[…],"list":{NAME:LEAST},"request":{…}}: what
// this run must have; the whole list of what a default run must have, which the gate compares; what
// resumed_options reads.
std::string plan_json(const RunOptions& options, const RunPlan& plan);

// "left out of SUITE: FLAG", "not judged in SUITE: WHY" for such a reason of giving up; "" for a refusal.
std::string unmeasured(const std::string& suite, const std::string& reason);

// The newest run of this database that did not finish. Throws Error if there is none.
dashboard::Run unfinished_run(dashboard::Store& store, const std::string& db);
// The lane as the store has it, with what else decides bits: "exact", "fast --reduce library
// --fallback-replicate".
std::string numerics_of(const RunOptions& options);
// `now` with all that decides the sequence (suites, seed, cases, time, shard, fault) taken from the run.
RunOptions resumed_options(RunOptions now, const dashboard::Run& run);

// Verdicts by suite, failures by bucket, planted faults, and a digest of all verdicts that does not depend on
// their order.
RunSummary read_summary(dashboard::Store& store, const dashboard::Run& run);
// Suite -> its cases in a second of one core's time.
std::map<std::string, double> rates(dashboard::Store& store, const std::string& run);

// Files of workers beside a database.
std::vector<std::string> shard_files(const std::string& db);
void remove_worker_files(const std::string& db);

}  // namespace lockstep::suites
