// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/run_facts.h"

#include <set>

#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr int64_t kMostRows = 100;

std::string difference(int64_t a, int64_t b) {
  if (a == b) return "<span class=\"quiet\">same</span>";
  return (b > a ? "+" : "−") + grouped(b > a ? b - a : a - b);
}

// One row for each name of either; `only_differences`: without those that are equal.
std::string counts(const std::string& caption, const char* what, const std::map<std::string, int64_t>& a,
                   const std::map<std::string, int64_t>& b, bool only_differences, bool verdicts) {
  html::Table table(caption,
                    {{what, "key"}, {"First run", "num"}, {"Second run", "num"}, {"Difference", "num"}});
  std::set<std::string> names;
  for (const auto* side : {&a, &b})
    for (const auto& [name, unused] : *side) names.insert(name);
  int64_t left_out = 0;
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    const int64_t m = x == a.end() ? 0 : x->second, n = y == b.end() ? 0 : y->second;
    if (only_differences && m == n) continue;
    if (table.rows() >= kMostRows) {
      ++left_out;
      continue;
    }
    table.row(
        {verdicts ? html::verdict_chip(name) : "<span class=\"wrap\">" + html::cut(name, 200) + "</span>",
         grouped(m), grouped(n), difference(m, n)});
  }
  if (left_out > 0) return table.html() + "<p class=\"quiet\">" + grouped(left_out) + " more differ.</p>";
  return table.html_or(only_differences ? "The two agree." : "Neither has any.",
                       only_differences ? "good" : "");
}

// What is in `a` and not in `b`.
std::string only_in(const std::string& caption, const char* what, const std::map<std::string, int64_t>& a,
                    const std::map<std::string, int64_t>& b) {
  html::Table table(caption, {{what, "key"}, {"Count", "num"}});
  int64_t left_out = 0;
  for (const auto& [name, n] : a) {
    if (b.contains(name)) continue;
    if (table.rows() >= kMostRows) {
      ++left_out;
      continue;
    }
    table.row({"<span class=\"wrap\">" + html::cut(name, 200) + "</span>", grouped(n)});
  }
  if (table.rows() == 0) return "<p class=\"quiet\">" + caption + ": nothing.</p>";
  return "<h3>" + caption + "</h3>" + table.html() +
         (left_out > 0 ? "<p class=\"quiet\">" + grouped(left_out) + " more.</p>" : "");
}

std::string texts(const std::string& caption, const std::map<std::string, std::string>& a,
                  const std::map<std::string, std::string>& b) {
  html::Table table(caption, {{"Fact", "key"}, {"First run"}, {"Second run"}, {"Same"}});
  std::set<std::string> names;
  for (const auto* side : {&a, &b})
    for (const auto& [name, unused] : *side) names.insert(name);
  for (const std::string& name : names) {
    const auto x = a.find(name), y = b.find(name);
    const std::string m = x == a.end() ? "" : x->second, n = y == b.end() ? "" : y->second;
    const auto cell = [](const std::string& text) {
      return text.empty() ? "–" : "<span class=\"wrap\">" + html::cut(text, 300) + "</span>";
    };
    table.row({html::cut(name, 80), cell(m), cell(n),
               m == n ? "<span class=\"quiet\">same</span>" : "<span class=\"differs\">≠ differs</span>"});
  }
  return table.html();
}

std::string rates(const RunFacts& a, const RunFacts& b) {
  html::Table table(
      "Rates", {{"What", "key"}, {"First run", "num"}, {"Second run", "num"}, {"Second / first", "num"}});
  std::set<std::string> names;
  for (const RunFacts* side : {&a, &b})
    for (const auto& [name, unused] : side->rates) names.insert(name);
  for (const std::string& name : names) {
    const auto x = a.rates.find(name), y = b.rates.find(name);
    const auto unit = a.units.contains(name) ? a.units.at(name) : b.units.at(name);
    const auto cell = [&](auto it, const auto& map) {
      return it == map.end() ? "–" : html::brief(it->second) + " " + html::escape(unit);
    };
    const bool both = x != a.rates.end() && y != b.rates.end() && x->second != 0;
    if (table.rows() < 4 * kMostRows)
      table.row({html::cut(name, 120), cell(x, a.rates), cell(y, b.rates),
                 both ? html::brief(y->second / x->second) : "–"});
  }
  return table.html_or("Neither was timed.");
}

}  // namespace

std::optional<RunFacts> facts_of(const Source& source, int64_t run_id) {
  RunFacts facts;
  const std::string where = " WHERE run_id = " + std::to_string(run_id);
  const int64_t rows = source.each(
      "SELECT run, command, seed, numerics, state, exit_code, build_hash, commit_id, time, seconds, cases, "
      "failures, buckets FROM v_summary" +
          where,
      [&](const Row& r) {
        facts.name = r.text(0);
        facts.page = source.href("", {{"run", std::to_string(run_id)}});
        constexpr const char* kNames[] = {"command",   "seed",  "numerics", "state",
                                          "exit code", "build", "commit"};
        for (int i = 0; i < 7; ++i) facts.summary[kNames[i]] = r.text(i + 1);
        facts.summary["started"] = html::time(r.integer(8));
        if (!r.null(9)) facts.summary["took"] = html::duration(r.number(9));
        facts.summary["cases"] = r.grouped(10);
        facts.summary["failures"] = r.grouped(11);
        facts.summary["buckets"] = r.grouped(12);
      });
  if (rows == 0) return std::nullopt;
  const auto count = [&](const std::string& query, std::map<std::string, int64_t>& into) {
    source.each(query, [&](const Row& r) { into[r.text(0)] += r.integer(1); });
  };
  count("SELECT verdict, sum(cases) FROM v_verdicts" + where + " AND NOT self_check GROUP BY verdict",
        facts.verdicts);
  count("SELECT label, hits FROM v_labels" + where, facts.labels);
  count("SELECT bucket, cases FROM v_failures" + where, facts.buckets);
  count("SELECT op || ' on ' || placement, sum(hits) FROM v_coverage" + where + " GROUP BY op, placement",
        facts.covered);
  source.each("SELECT name, value FROM v_environment" + where,
              [&](const Row& r) { facts.environment[r.text(0)] = r.text(1); });
  source.each("SELECT kind || ' ' || name, unit, avg(value) FROM v_throughput" + where + " GROUP BY 1, 2",
              [&](const Row& r) {
                if (r.null(2)) return;
                facts.rates[r.text(0)] = r.number(2);
                facts.units[r.text(0)] = r.text(1);
              });
  return facts;
}

std::string compared(const RunFacts& a, const RunFacts& b) {
  return section("summary", "The two runs", texts("The two runs", a.summary, b.summary)) +
         section("verdicts", "Verdicts", counts("Verdicts", "Verdict", a.verdicts, b.verdicts, false, true)) +
         section("buckets", "Buckets",
                 only_in("Only in the first run", "Bucket", a.buckets, b.buckets) +
                     only_in("Only in the second run", "Bucket", b.buckets, a.buckets)) +
         section("coverage", "Coverage",
                 only_in("Covered only by the first run", "Op and placement", a.covered, b.covered) +
                     only_in("Covered only by the second run", "Op and placement", b.covered, a.covered)) +
         section("labels", "Labels that differ", counts("Labels", "Label", a.labels, b.labels, true, false)) +
         section("rates", "Rates", rates(a, b)) +
         section("environment", "Environment", texts("Environment", a.environment, b.environment));
}

}  // namespace lockstep::dashboard
