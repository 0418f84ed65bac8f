// SPDX-License-Identifier: Apache-2.0
// CaseWorker: what one worker process does with each case: generate, judge, shrink, record, tell.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "suites/core/facts.h"
#include "suites/harness/case_job.h"
#include "suites/harness/examine.h"
#include "suites/harness/sequence.h"
#include "suites/harness/worker_pool.h"

namespace lockstep::suites {

// The file of a worker beside the run's database.
std::string shard_path(const std::string& db, int worker);

class CaseWorker {
 public:
  // Number k is the k-th kept case; the numbers after them are those of the sequence.
  explicit CaseWorker(const CaseJob& job);

  // The calls of PoolWork, in the worker process. Throw WorkerExit with code 7 if the store fails.
  void begin(int worker, bool again);
  void ready();
  void run(int64_t number);
  void lost(const Lost& lost);
  void save();
  void leave();

 private:
  struct Judged;
  dashboard::CaseRow row(const Planned& planned, const oracle::Case& c) const;
  void record(const Planned& planned, const oracle::Case& c, const Judged& judged);
  void record_minimal(const Planned& planned, const Failed& failure, const Minimal& minimal);
  void shrink_and_tell(const Planned& planned, const oracle::Case& c, const Failed& failure);
  void tell(const Planned& planned, const oracle::Case& c, const Outcome& outcome);
  Planned planned(int64_t number);
  // Of a kept case the index is -1 - k.
  const dashboard::KeptCase* kept(const Planned& planned) const;
  oracle::Case case_of(const Planned& planned) const;
  void record_replay(const Planned& planned, const dashboard::CaseRow& row);

  const RunOptions& options_;
  const dashboard::Run& run_;
  const std::vector<dashboard::KeptCase>& kept_;
  const Recorded& recorded_;
  Sequence sequence_;
  std::unique_ptr<dashboard::Store> store_;
  std::unique_ptr<dashboard::Recorder> recorder_;
  std::unique_ptr<EngineUnderTest> engine_;
  bool has_nobody_ = false;                // the launcher's other processes have gone
  std::map<std::string, int64_t> shrunk_;  // bucket -> how often
};

// In a worker process of a run's pool: a CaseWorker to the end.
[[noreturn]] void work_on(const CaseJob& job);

}  // namespace lockstep::suites
