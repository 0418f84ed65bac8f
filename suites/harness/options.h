// SPDX-License-Identifier: Apache-2.0
// What `lockstep run` was asked to do, and what came of it. Values.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"
#include "engine/lane/numerics.h"
#include "suites/core/spawn.h"

namespace lockstep::suites {

struct RunOptions {
  std::vector<std::string> suites;  // empty: all
  uint64_t seed = 0;
  int64_t cases = 0;   // 0: the default plan, or as many as fit into `seconds`
  double seconds = 0;  // 0: no limit
  int jobs = 0;        // 0: one for each processor
  int64_t shard = 0, shards = 1;
  Lane lane = Lane::kExact;
  bool library = false;   // ranks reduce by the library's own collectives
  bool fallback = false;  // ops without a rule run whole
  std::string db = "lockstep.db";
  std::map<std::string, int64_t> required;  // labels, ops and pairs, besides the default plan's
  std::string fault;                        // plants this fault in the engine
  std::string engine = "lockstep";          // by name, or its command (engines/make_engine.h)
  std::string world = "local";              // of "lockstep": which World hosts the ranks of each case
  std::string device = "cpu";               // or "cuda": where the tensors of each Case are
  int64_t ranks = 0;                        // processes of the world "gloo"; 0: nobody said
  std::string chaos;                        // what happens to one of them (faults/chaos.h)
  bool resume = false;
  double hang_seconds = 120;
  std::vector<std::string> corpus;  // databases and text files whose kept cases are replayed first, too
  bool replay_kept = true;
  bool fail_fast = false;  // the first failure ends the run
  double least_rate = 0;   // cases a second and core, below which the run is a regression
  std::string commit;      // of the program under test; "": the one this binary was built from
  std::string command;     // as typed
  std::vector<std::string> worker = {kThisProgram, "worker"};  // the program that judges: work_on()
};

struct FailureSummary {
  std::string bucket, suite, verdict, token, replay, explanation;
  int64_t cases = 0;
};

struct RefusalSummary {
  std::string suite, op, reason;
  int64_t cases = 0;
};

struct RunSummary {
  std::string run;
  uint64_t seed = 0;
  int64_t planned = 0;  // 0: as many as fit into the time
  int64_t cases = 0;    // recorded, distinct
  double seconds = 0;
  double cases_per_second_per_core = 0;
  std::map<std::string, std::map<std::string, int64_t>> verdicts;  // suite -> verdict -> cases
  std::vector<FailureSummary> failures;
  std::vector<RefusalSummary> refusals;         // why cases gave up
  std::vector<dashboard::PlantedFault> faults;  // that the suite `faults` looked for, by class and name
  std::vector<std::string> covered;             // what there was to cover beyond labels and pairs, for people
  std::map<std::string, int64_t> unmeasured;    // "left out of SUITE: FLAG", "not judged in …" -> cases
  std::vector<std::string> lacking;             // what the plan required and the cases did not have
  int64_t fallbacks = 0;                        // ops without a rule that ran whole
  std::map<std::string, int64_t> goldens;       // of the suite golden: recorded, published, … -> cases
  std::string digest;                           // of all verdicts, whatever their order
  bool interrupted = false;
  bool stopped = false;  // at the first failure, as asked: what was not run is not missed
  std::set<int> codes;   // every exit code that applies
};

}  // namespace lockstep::suites
