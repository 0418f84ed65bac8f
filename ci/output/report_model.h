// SPDX-License-Identifier: Apache-2.0
// What a store says, read once from its views: the one source of every output.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dashboard/store/store.h"

namespace lockstep::output {

// A value of a view as SQLite gives it; a blob is its hex text.
using Value = std::variant<std::monostate, int64_t, double, std::string>;

// Rows of a view. Columns are asked for by name, so that a view may gain some.
struct Table {
  std::vector<std::string> columns{};
  std::vector<std::vector<Value>> rows{};

  // @pre such a column exists; @throws Broken otherwise. NULL is "" and 0.
  size_t column(std::string_view name) const;
  bool null(size_t row, std::string_view name) const;
  std::string text(size_t row, std::string_view name) const;
  int64_t integer(size_t row, std::string_view name) const;
  double number(size_t row, std::string_view name) const;
};

// What every output must agree on.
struct Counts {
  int64_t runs = 0, unfinished = 0;
  double seconds = 0;
  int64_t cases = 0, failures = 0, self_checks = 0, missed_self_checks = 0;
  int64_t buckets = 0;                        // that fail in the runs in question
  int64_t muted = 0;                          // of them
  int64_t demands = 0, unmet = 0;             // of the plan
  int64_t gates = 0, red_gates = 0;           // rules of the runs
  int64_t faults = 0, survived = 0;           // planted
  int64_t gaps = 0;                           // of coverage
  std::map<std::string, int64_t> verdicts{};  // cases by verdict
  std::map<std::string, int64_t> states{};    // buckets of the whole file, by state
  std::map<std::string, int64_t> findings{};  // of the newest judgement: block, warn, note; always all three
  std::map<std::string, int64_t> series{};    // measured series by the newest judgement's verdict
  bool operator==(const Counts&) const = default;
};

// The runs in question are those of the build and commit that ran last; buckets are those of the whole file,
// with their life; findings are those of the newest judgement.
struct ReportModel {
  Table runs{};       // v_summary
  Table verdicts{};   // v_verdicts
  Table failures{};   // v_failures; a bucket once, from its newest run
  Table buckets{};    // v_buckets
  Table plan{};       // v_plan
  Table gates{};      // v_gates
  Table faults{};     // v_faults
  Table gap_kinds{};  // kind, gaps: v_coverage_gaps counted
  Table judgement{};  // v_judgements: no row or one
  Table findings{};   // v_findings
  Table series{};     // v_series_verdicts
  Counts counts{};
};

// Reads all views in one transaction. @throws StoreError
ReportModel read_report_model(const dashboard::Store& store);

// A bucket that fails now: row of `failures`, and its row in `buckets`.
struct Live {
  size_t failure, bucket;
  bool muted;
};
// In the order of `failures`: most cases first.
std::vector<Live> live_buckets(const ReportModel& model);

// The newest judgement is about these runs: it is of their binary.
bool judged(const ReportModel& model);

// Every exit code that applies, first the one that wins: those of the judgement if these runs were judged,
// else those of the runs; none if no run ended.
std::vector<int> exit_codes(const ReportModel& model);

// The worst thing in a few words: "2 cases fail in 1 bucket." Red says whether it is bad: what the gate
// decided, else what the runs say.
struct Headline {
  bool red;
  std::string text;
};
Headline headline(const ReportModel& model);

}  // namespace lockstep::output
