// SPDX-License-Identifier: Apache-2.0
#include "ci/output/report_model.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "ci/output/text.h"
#include "ci/output/view.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"

namespace lockstep::output {
namespace {

// The runs in question, kept while the other views are asked about them.
struct Scope {
  SQLite::Database& db;
  explicit Scope(SQLite::Database& database) : db(database) {
    db.exec(R"(DROP TABLE IF EXISTS temp.output_runs;
      CREATE TEMP TABLE output_runs AS SELECT * FROM v_summary;
      DELETE FROM output_runs WHERE (build_hash, commit_id) <>
        (SELECT build_hash, commit_id FROM output_runs ORDER BY time DESC, run DESC, run_id DESC LIMIT 1))");
  }
  ~Scope() { db.tryExec("DROP TABLE IF EXISTS temp.output_runs"); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Table of(const std::string& view, const std::string& order) const {
    return table_of(
        db, "SELECT * FROM " + view + " WHERE run_id IN (SELECT run_id FROM output_runs) ORDER BY " + order);
  }
};

// A bucket that several runs met is shown as the newest of them did.
constexpr const char* kFailures = R"(SELECT * FROM
  (SELECT f.*, row_number() OVER (PARTITION BY f.bucket ORDER BY r.time DESC, r.run_id DESC) AS age
   FROM v_failures f JOIN output_runs r ON r.run_id = f.run_id)
  WHERE age = 1 ORDER BY cases DESC, bucket)";
constexpr const char* kJudgement = "SELECT * FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1";

int64_t sum(const Table& table, std::string_view column) {
  int64_t total = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) total += table.integer(i, column);
  return total;
}

// How many rows have this column 0.
int64_t zeros(const Table& table, std::string_view column) {
  int64_t n = 0;
  for (size_t i = 0; i < table.rows.size(); ++i) n += table.integer(i, column) == 0;
  return n;
}

std::map<std::string, int64_t> by(const Table& table, std::string_view column) {
  std::map<std::string, int64_t> counts;
  for (size_t i = 0; i < table.rows.size(); ++i) ++counts[table.text(i, column)];
  return counts;
}

void count_cases(const ReportModel& p, Counts& c) {
  c.cases = sum(p.runs, "cases");
  c.failures = sum(p.runs, "failures");
  c.self_checks = sum(p.runs, "self_checks");
  for (size_t i = 0; i < p.verdicts.rows.size(); ++i) {
    const int64_t cases = p.verdicts.integer(i, "cases");
    const bool self_check = p.verdicts.integer(i, "self_check") != 0;
    if (!self_check) c.verdicts[p.verdicts.text(i, "verdict")] += cases;
    if (self_check && p.verdicts.integer(i, "failure") != 0) c.missed_self_checks += cases;
  }
}

Counts count(const ReportModel& p) {
  Counts c;
  c.runs = static_cast<int64_t>(p.runs.rows.size());
  for (size_t i = 0; i < p.runs.rows.size(); ++i) {
    c.unfinished += p.runs.text(i, "state") != "finished";
    c.seconds += p.runs.number(i, "seconds");
  }
  count_cases(p, c);
  c.buckets = static_cast<int64_t>(p.failures.rows.size());
  c.demands = static_cast<int64_t>(p.plan.rows.size());
  c.unmet = zeros(p.plan, "met");
  c.gates = static_cast<int64_t>(p.gates.rows.size());
  c.red_gates = zeros(p.gates, "passed");
  c.faults = static_cast<int64_t>(p.faults.rows.size());
  c.survived = zeros(p.faults, "found");
  c.gaps = sum(p.gap_kinds, "gaps");
  c.states = by(p.buckets, "state");
  c.findings = {{"block", 0}, {"note", 0}, {"warn", 0}};
  for (const auto& [effect, n] : by(p.findings, "effect")) c.findings[effect] = n;
  c.series = by(p.series, "verdict");
  return c;
}

ReportModel read(SQLite::Database& db) {
  ReportModel p;
  const SQLite::Transaction transaction(
      db);  // all views of one moment; nothing is written but temporary tables
  const Scope scope(db);
  p.runs = table_of(db, "SELECT * FROM output_runs ORDER BY time, run, run_id");
  p.verdicts = scope.of("v_verdicts", "suite, self_check, severity, verdict, run_id");
  p.failures = table_of(db, kFailures);
  p.failures.columns.pop_back();
  for (auto& row : p.failures.rows) row.pop_back();
  p.buckets = table_of(db, "SELECT * FROM v_buckets ORDER BY bucket");
  p.plan = scope.of("v_plan", "kind, name, run_id");
  p.gates = scope.of("v_gates", "rule, run_id");
  p.faults = scope.of("v_faults", "fault, run_id");
  p.gap_kinds = table_of(db, R"(SELECT kind, count(*) AS gaps FROM v_coverage_gaps
    WHERE run_id IN (SELECT run_id FROM output_runs) GROUP BY kind ORDER BY kind)");
  p.judgement = table_of(db, kJudgement);
  const std::string id =
      p.judgement.rows.empty() ? "-1" : std::to_string(p.judgement.integer(0, "judgement"));
  p.findings = table_of(db, "SELECT * FROM v_findings WHERE judgement = " + id + " ORDER BY seq");
  p.series = table_of(db, "SELECT * FROM v_series_verdicts WHERE judgement = " + id + " ORDER BY series");
  p.counts = count(p);
  for (const Live& live : live_buckets(p)) p.counts.muted += live.muted;
  return p;
}

}  // namespace

size_t Table::column(std::string_view name) const {
  const auto at = std::find(columns.begin(), columns.end(), name);
  if (at == columns.end()) throw Broken("[output] no column " + std::string(name));
  return static_cast<size_t>(at - columns.begin());
}

bool Table::null(size_t row, std::string_view name) const {
  return std::holds_alternative<std::monostate>(rows[row][column(name)]);
}

std::string Table::text(size_t row, std::string_view name) const {
  const Value& value = rows[row][column(name)];
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return "";
}

int64_t Table::integer(size_t row, std::string_view name) const {
  const auto* integer = std::get_if<int64_t>(&rows[row][column(name)]);
  return integer == nullptr ? 0 : *integer;
}

double Table::number(size_t row, std::string_view name) const {
  const Value& value = rows[row][column(name)];
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return 0;
}

ReportModel read_report_model(const dashboard::Store& store) {
  try {
    return read(store.database());
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(store.path());
  }
}

std::vector<Live> live_buckets(const ReportModel& p) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < p.buckets.rows.size(); ++i) known[p.buckets.text(i, "bucket")] = i;
  std::vector<Live> live;
  for (size_t i = 0; i < p.failures.rows.size(); ++i) {
    const auto found = known.find(p.failures.text(i, "bucket"));
    if (found == known.end()) throw Broken("[output] v_buckets lacks a bucket of v_failures");
    live.push_back({i, found->second, p.buckets.text(found->second, "state") == "muted"});
  }
  return live;
}

bool judged(const ReportModel& p) {
  return !p.judgement.rows.empty() && !p.runs.rows.empty() &&
         p.judgement.text(0, "build_hash") == p.runs.text(0, "build_hash");
}

std::vector<int> exit_codes(const ReportModel& p) {
  std::set<int> codes;
  if (judged(p)) {
    codes.insert(static_cast<int>(p.judgement.integer(0, "exit_code")));
    const auto listed = nlohmann::json::parse(p.judgement.text(0, "codes"), nullptr, false);
    if (listed.is_array())
      for (const auto& code : listed)
        if (code.is_number_integer()) codes.insert(code.get<int>());
  } else {
    for (size_t i = 0; i < p.runs.rows.size(); ++i)
      if (!p.runs.null(i, "exit_code")) codes.insert(static_cast<int>(p.runs.integer(i, "exit_code")));
  }
  if (codes.size() > 1) codes.erase(kAllEqual);  // something else applies
  return in_winning_order(codes);
}

namespace {

std::string failing(const Counts& c) {
  std::string text =
      plural(c.failures, "case fails in ", "cases fail in ") + plural(c.buckets, "bucket", "buckets");
  if (c.muted > 0) text += ", " + std::to_string(c.muted) + " of them muted";
  return text + ".";
}

Headline of_judgement(const ReportModel& p) {
  const auto codes = exit_codes(p);
  const bool red = !codes.empty() && codes[0] != 0;
  std::string text =
      red ? "The gate is red: " + plural(p.counts.findings.at("block"), "finding blocks.", "findings block.")
          : "The gate passes.";
  if (p.counts.failures > 0) text += " " + failing(p.counts);
  return {red, text};
}

}  // namespace

Headline headline(const ReportModel& p) {
  const Counts& c = p.counts;
  const auto broken = c.verdicts.find("broken");
  if (c.runs == 0) return {true, "Nothing was recorded."};
  if (judged(p)) return of_judgement(p);
  if (broken != c.verdicts.end())
    return {true, "The harness itself failed in " + plural(broken->second, "case.", "cases.")};
  if (c.missed_self_checks > 0)
    return {true, plural(c.missed_self_checks, "self-check of the harness fails.",
                         "self-checks of the harness fail.")};
  if (c.failures > 0) return {true, failing(c)};
  if (c.survived > 0)
    return {true, plural(c.survived, "planted fault survived.", "planted faults survived.")};
  if (c.unmet > 0) return {true, "Not everything planned was measured."};
  if (c.red_gates > 0) return {true, plural(c.red_gates, "rule is red.", "rules are red.")};
  if (c.unfinished > 0) return {true, "The run has not finished; nothing fails so far."};
  const auto codes = exit_codes(p);
  if (!codes.empty() && codes[0] != 0)
    return {true, "The run ended with code " + std::to_string(codes[0]) + "."};
  return {false, c.cases == 0 ? "No case was planned, none failed." : "Every case is equal or explained."};
}

}  // namespace lockstep::output
