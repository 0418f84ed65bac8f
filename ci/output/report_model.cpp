// SPDX-License-Identifier: Apache-2.0
#include "ci/output/report_model.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ci/output/text.h"
#include "ci/output/view.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"

namespace lockstep::output {
namespace {

// The runs in question and the life of all buckets, kept while the other views are asked about them.
struct Scope {
  SQLite::Database& db;
  explicit Scope(SQLite::Database& database) : db(database) {
    db.exec(kDrop);
    db.exec(R"(CREATE TEMP TABLE output_runs AS SELECT * FROM v_summary;
      DELETE FROM output_runs WHERE (build_hash, commit_id) <>
        (SELECT build_hash, commit_id FROM output_runs ORDER BY time DESC, run DESC, run_id DESC LIMIT 1);
      CREATE TEMP TABLE output_buckets AS SELECT * FROM v_buckets)");
  }
  ~Scope() { db.tryExec(kDrop); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Table of(const std::string& view, const std::string& order) const {
    return table_of(
        db, "SELECT * FROM " + view + " WHERE run_id IN (SELECT run_id FROM output_runs) ORDER BY " + order);
  }
  static constexpr const char* kDrop =
      "DROP TABLE IF EXISTS temp.output_runs; DROP TABLE IF EXISTS temp.output_buckets";
};

// A bucket that several runs met is shown as the newest of them did: beside max(), SQLite takes the other
// columns of a group from the row that has it.
constexpr const char* kFailures = R"(SELECT f.*, b.* FROM v_failures f JOIN output_runs r USING (run_id)
  LEFT JOIN output_buckets b ON b.bucket = f.bucket AND b.engine = r.engine
  GROUP BY f.bucket HAVING max(r.time * 1000000 + r.run_id) ORDER BY f.cases DESC, f.bucket)";

Counts count(const ReportModel& p) {
  const auto sum = [](const Table& table, const char* column, const auto& counts) {
    int64_t total = 0;
    for (const Row& row : table)
      if (counts(row)) total += row.integer(column);
    return total;
  };
  const auto all = [](const Row&) { return true; };
  const auto number = [](const Table& table, const auto& counts) {
    return static_cast<int64_t>(std::count_if(table.begin(), table.end(), counts));
  };
  const auto lacks = [](const char* column) {
    return [column](const Row& row) { return row.integer(column) == 0; };
  };
  const auto missed = [](const Row& v) { return v.integer("self_check") != 0 && v.integer("failure") != 0; };
  Counts c{{{"runs", number(p.runs, all)},
            {"unfinished", number(p.runs, [](const Row& r) { return r.text("state") != "finished"; })},
            {"cases", sum(p.runs, "cases", all)},
            {"failures", sum(p.runs, "failures", all)},
            {"buckets", number(p.failures, all)},
            {"muted", number(p.failures, muted)},
            {"self_checks", sum(p.runs, "self_checks", all)},
            {"missed_self_checks", sum(p.verdicts, "cases", missed)},
            {"demands", number(p.plan, all)},
            {"unmet", number(p.plan, lacks("met"))},
            {"gates", number(p.gates, all)},
            {"red_gates", number(p.gates, lacks("passed"))},
            {"faults", number(p.faults, all)},
            {"survived", number(p.faults, lacks("found"))},
            {"gaps", sum(p.gap_kinds, "gaps", all)}}};
  std::map<std::string, int64_t> verdicts, states, series, findings{{"block", 0}, {"note", 0}, {"warn", 0}};
  for (const Row& v : p.verdicts)
    if (v.integer("self_check") == 0) verdicts[v.text("verdict")] += v.integer("cases");
  for (const Row& bucket : p.buckets) ++states[bucket.text("state")];
  for (const Row& finding : p.findings) ++findings[finding.text("effect")];
  for (const Row& s : p.series) ++series[s.text("verdict")];
  for (const auto& [kind, counts] :
       {std::pair{"verdict.", verdicts}, {"bucket.", states}, {"finding.", findings}, {"series.", series}})
    for (const auto& [name, n] : counts) c.emplace_back(kind + name, n);
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
  p.buckets = table_of(db, "SELECT * FROM output_buckets ORDER BY bucket");
  p.plan = scope.of("v_plan", "kind, name, run_id");
  p.gates = scope.of("v_gates", "rule, run_id");
  p.faults = scope.of("v_faults", "fault, run_id");
  p.gap_kinds = table_of(db, R"(SELECT kind, count(*) AS gaps FROM v_coverage_gaps
    WHERE run_id IN (SELECT run_id FROM output_runs) GROUP BY kind ORDER BY kind)");
  p.judgement = table_of(db, "SELECT * FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1");
  const std::string id = p.judgement.empty() ? "-1" : p.judgement[0].text("judgement");
  p.findings = table_of(db, "SELECT * FROM v_findings WHERE judgement = " + id + " ORDER BY seq");
  p.series = table_of(db, "SELECT * FROM v_series_verdicts WHERE judgement = " + id + " ORDER BY series");
  p.counts = count(p);
  return p;
}

}  // namespace

const Value& Row::at(std::string_view name) const {
  const auto found = std::find(columns->begin(), columns->end(), name);
  if (found == columns->end()) throw Broken("[output] no column " + std::string(name));
  return values[static_cast<size_t>(found - columns->begin())];
}

std::string Row::text(std::string_view name) const {
  const Value& value = at(name);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* integer = std::get_if<int64_t>(&value)) return std::to_string(*integer);
  return "";
}

int64_t Row::integer(std::string_view name) const {
  const auto* integer = std::get_if<int64_t>(&at(name));
  return integer == nullptr ? 0 : *integer;
}

double Row::number(std::string_view name) const {
  const auto* real = std::get_if<double>(&at(name));
  return real == nullptr ? static_cast<double>(integer(name)) : *real;
}

int64_t Counts::operator[](std::string_view name) const {
  const auto found = std::find_if(begin(), end(), [&](const auto& count) { return count.first == name; });
  return found == end() ? 0 : found->second;
}

ReportModel read_report_model(const dashboard::Store& store) {
  try {
    return read(store.database());
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(store.path());
  }
}

bool muted(const Row& bucket) {
  return bucket.text("state") == "muted";
}

bool judged(const ReportModel& p) {
  return !p.judgement.empty() && !p.runs.empty() &&
         p.judgement[0].text("build_hash") == p.runs[0].text("build_hash");
}

std::vector<int> exit_codes(const ReportModel& p) {
  std::set<int> codes;
  if (judged(p)) {
    codes.insert(static_cast<int>(p.judgement[0].integer("exit_code")));
    for (const auto& code : nlohmann::json::parse(p.judgement[0].text("codes"), nullptr, false))
      if (code.is_number_integer()) codes.insert(code.get<int>());
  } else {
    for (const Row& run : p.runs)
      if (!run.text("exit_code").empty()) codes.insert(static_cast<int>(run.integer("exit_code")));
  }
  if (codes.size() > 1) codes.erase(kAllEqual);  // something else applies
  return in_winning_order(codes);
}

bool of_harness(int64_t code) {
  return code == kUsage || code == kHarnessError || code == kStoreUnusable;
}

namespace {

std::string failing(const Counts& c) {
  std::string text =
      plural(c["failures"], "case fails in ", "cases fail in ") + plural(c["buckets"], "bucket", "buckets");
  if (c["muted"] > 0) text += ", " + std::to_string(c["muted"]) + " of them muted";
  return text + ".";
}

Headline of_judgement(const ReportModel& p) {
  const auto codes = exit_codes(p);
  const bool red = !codes.empty() && codes[0] != 0;
  std::string text = "The gate passes.";
  if (red)
    text = "The gate is red: " + plural(p.counts["finding.block"], "finding blocks.", "findings block.");
  if (p.counts["failures"] > 0) text += " " + failing(p.counts);
  return {red, text};
}

}  // namespace

Headline headline(const ReportModel& p) {
  const Counts& c = p.counts;
  if (c["runs"] == 0) return {true, "Nothing was recorded."};
  if (judged(p)) return of_judgement(p);
  if (const auto n = c["verdict.broken"]; n > 0)
    return {true, "The harness itself failed in " + plural(n, "case.", "cases.")};
  if (const auto n = c["missed_self_checks"]; n > 0)
    return {true, plural(n, "self-check of the harness fails.", "self-checks of the harness fail.")};
  if (c["failures"] > 0) return {true, failing(c)};
  if (const auto n = c["survived"]; n > 0)
    return {true, plural(n, "planted fault survived.", "planted faults survived.")};
  if (c["unmet"] > 0) return {true, "Not everything planned was measured."};
  if (const auto n = c["red_gates"]; n > 0) return {true, plural(n, "rule is red.", "rules are red.")};
  if (c["unfinished"] > 0) return {true, "The run has not finished; nothing fails so far."};
  const auto codes = exit_codes(p);
  if (!codes.empty() && codes[0] != 0)
    return {true, "The run ended with code " + std::to_string(codes[0]) + "."};
  return {false, c["cases"] == 0 ? "No case was planned, none failed." : "Every case is equal or explained."};
}

}  // namespace lockstep::output
