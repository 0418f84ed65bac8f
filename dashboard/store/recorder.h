// SPDX-License-Identifier: Apache-2.0
// Writes the rows of one run into a store, in batches. The one writing side; suites know only this.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dashboard/store/rows.h"

namespace lockstep::dashboard {

class Store;

// One recorder per store at a time, one thread. Every worker process opens its own file:
//
//   Store store = Store::open_writer("run.db.shard-3");
//   Recorder recorder(store, run, "worker 3");
//   recorder.record(case_row);
//   recorder.finish("finished", 0);
//
// Rows become durable in batches: after kBatchCases, or with the first call half a second after the batch
// began, and at once for a failure. A killed process loses the open batch, never a committed row. All methods
// throw StoreError when the file cannot take the rows (full disk, for example); the open batch is then rolled
// back and everything committed before stays.
class Recorder {
 public:
  static constexpr int64_t kBatchCases = 256;

  // `worker` names this source of counts in the merged store; two shards of a run must not share it.
  Recorder(Store& store, const Run& run, std::string worker);
  // Commits what is open; errors are swallowed here, so call flush() or finish() first.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // The key is made of build, lane, run seed, suite, law, variant and token. Recording the same key with the
  // same outcome again changes nothing but the time (the smaller stays); with another outcome both rows stay,
  // and v_nondeterminism shows them.
  // @post returns the number of different outcomes that this run now holds for the case: 1, or more when the
  // case is not deterministic.
  int64_t record(const CaseRow& row);
  void record(const Failure& row);
  void record(const PlantedFault& row);
  void record(const ExpectedException& row);
  void record(const Measurement& row);
  void record(const Gate& row);
  void record(const Series& row);
  void record(const Replayed& row);
  void record(const Divergence& row);
  // A fact about where the run took place, beyond those of its row.
  void record_fact(const std::string& name, const std::string& value);
  // A case to replay first from now on; of two with one token the older stays.
  void keep(const KeptCase& row);
  // An op that the run is expected to reach; if no coverage names it, v_coverage_gaps does.
  void expect_op(const std::string& op);

  // @pre no other curve of this run has this name, unless all its fields are the same.
  int64_t open_curve(const Curve& row);
  void record(int64_t curve, const CurvePoint& point);

  // The numbers of the cases of this suite that this run has committed or recorded; a resumed run skips them.
  std::vector<int64_t> recorded_numbers(const std::string& suite);

  // Commits the open batch if it is due, or in any case. Call flush_if_due() before a case that may take
  // long.
  void flush_if_due();
  void flush();
  // Whether every row so far is committed.
  bool saved() const { return !open_; }
  // Writes state ("finished", "interrupted"), exit code and end time, and commits.
  void finish(const std::string& state, int exit_code);

 private:
  struct Statements;
  template <class Write>
  auto write(Write&& action);
  template <class... Values>
  void put(const char* table, const char* how, const Values&... values);
  void begin();
  void abandon();
  void count(const CaseRow& row);
  void count_refusal(const CaseRow& row);
  void count_rates(const CaseRow& row);
  void write_diffs(int64_t case_id, const CaseRow& row);

  Store& store_;
  Run run_;
  std::string worker_;
  int64_t run_id_ = 0;
  std::map<int64_t, std::string> curve_dtype_;
  std::unique_ptr<Statements> sql_;
  bool open_ = false;
  int64_t batch_cases_ = 0;
  std::chrono::steady_clock::time_point batch_began_;
};

}  // namespace lockstep::dashboard
