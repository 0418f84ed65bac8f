// SPDX-License-Identifier: Apache-2.0
// What a store says, read once from its views: the one source of every output.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "dashboard/store/store.h"

namespace lockstep::output {

// A value of a view as SQLite gives it; a blob is its hex text.
using Value = std::variant<std::monostate, int64_t, double, std::string>;
using Columns = std::vector<std::string>;

// A row of a view. Columns are asked for by name, so that a view may gain some; of two with one name the
// first counts.
struct Row {
  std::shared_ptr<const Columns> columns{};
  std::vector<Value> values{};

  // @pre such a column exists; @throws Broken otherwise. NULL is "" and 0.
  const Value& at(std::string_view name) const;
  std::string text(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
};
using Table = std::vector<Row>;

// What every output must agree on, each with its name: "cases", …, then by name those of each "verdict.",
// "bucket." (of the whole file, by state), "finding." (of the newest judgement) and "series." (by its
// verdict).
struct Counts : std::vector<std::pair<std::string, int64_t>> {
  int64_t operator[](std::string_view name) const;  // 0 where there is none
};

// The runs in question are those of the build and commit that ran last; buckets are those of the whole file,
// with their life; findings are those of the newest judgement.
struct ReportModel {
  Table runs{};      // v_summary
  Table verdicts{};  // v_verdicts
  Table
      failures{};   // v_failures, most cases first, and v_buckets of each; a bucket once, from its newest run
  Table buckets{};  // v_buckets
  Table plan{};     // v_plan
  Table gates{};    // v_gates
  Table faults{};   // v_faults
  Table gap_kinds{};  // kind, gaps: v_coverage_gaps counted
  Table judgement{};  // v_judgements: no row or one
  Table findings{};   // v_findings
  Table series{};     // v_series_verdicts
  Counts counts{};
};

// Reads all views in one transaction. @throws StoreError
ReportModel read_report_model(const dashboard::Store& store);

// Whether a row of `failures` or `buckets` is muted.
bool muted(const Row& bucket);

// The newest judgement is about these runs: it is of their binary.
bool judged(const ReportModel& model);

// Every exit code that applies, first the one that wins: those of the judgement if these runs were judged,
// else those of the runs; none if no run ended.
std::vector<int> exit_codes(const ReportModel& model);

// A code that says that the harness, not the program under test, is at fault.
bool of_harness(int64_t code);

// The worst thing in a few words: "2 cases fail in 1 bucket." Red says whether it is bad: what the gate
// decided, else what the runs say.
struct Headline {
  bool red;
  std::string text;
};
Headline headline(const ReportModel& model);

}  // namespace lockstep::output
