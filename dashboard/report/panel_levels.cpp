// SPDX-License-Identifier: Apache-2.0
// Where measured series changed their level, on the machine that measured them last.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "dashboard/report/panels.h"
#include "dashboard/statistics/change_points.h"

namespace lockstep::dashboard {
namespace {

struct History {
  std::string unit;
  std::vector<double> values;
  std::vector<std::string> commits;
  std::vector<int64_t> times;
};

// Medians of one machine, the one that measured the series last, in the order of time: those of another say
// nothing about the binary. `where` is a condition on v_series with one `?`, bound to `text`.
std::map<std::string, History> histories(const Source& source, const std::string& where,
                                         const std::string& text) {
  std::map<std::string, History> all;
  source.each(
      "WITH mine AS (SELECT *, first_value(cpu) OVER newest AS last_cpu, first_value(cores) OVER newest AS "
      "last_cores FROM v_series WHERE " +
          where +
          " AND value IS NOT NULL WINDOW newest AS (PARTITION BY series ORDER BY time DESC, run_id DESC)) "
          "SELECT series, unit, value, commit_id, time FROM mine WHERE cpu = last_cpu AND cores = last_cores "
          "ORDER BY series, time, run_id",
      [&](const Row& r) {
        History& history = all[r.text(0)];
        history.unit = r.text(1);
        history.values.push_back(r.number(2));
        history.commits.push_back(r.text(3));
        history.times.push_back(r.integer(4));
      },
      {text});
  return all;
}

std::string change(double effect) {
  return std::string(effect < 0 ? "−" : "+") + html::brief(std::abs(100 * effect)) + " %";
}

using Columns = std::vector<html::Column>;

Columns columns(bool named) {
  Columns all = {{"Since commit", "key"}, {"Measured"},      {"Before", "num"},
                 {"After", "num"},        {"Change", "num"}, {"p", "num"}};
  if (named) all.insert(all.begin(), {"Series", "key"});
  return all;
}

// A row of columns() for each change of level.
std::vector<std::vector<std::string>> rows(const History& history) {
  std::vector<std::vector<std::string>> found;
  for (const auto& point : change_points(history.values).points)
    found.push_back({"<code>" + html::cut(history.commits[point.position], 16) + "</code>",
                     html::time(history.times[point.position]),
                     html::brief(point.before) + " " + html::escape(history.unit),
                     html::brief(point.after) + " " + html::escape(history.unit), change(point.effect),
                     html::brief(point.p)});
  return found;
}

// What the method cannot see, of a history of so many runs.
std::string limits(const std::string& runs) {
  const ChangePointOptions options;
  return "<p class=\"quiet\">E-divisive over the last " + runs +
         " of the machine that measured last; a level has at least " +
         html::grouped(static_cast<int64_t>(options.segment)) + " runs, so one that began with the newest " +
         html::grouped(static_cast<int64_t>(options.segment) - 1) + " is not seen yet.</p>";
}

}  // namespace

std::string series_levels(const Source& source, const std::string& series) {
  auto all = histories(source, "series = ?", series);
  const History& history = all[series];
  html::Table table("Changes of level", columns(false));
  for (const auto& row : rows(history)) table.row(row);
  const auto runs = std::min(history.values.size(), ChangePointOptions().most);
  return table.html_or("No change of level was found on the machine that measured last.") +
         limits(html::plural(static_cast<int64_t>(runs), "run", "runs"));
}

std::string render_levels(const Source& source, nlohmann::json&) {
  constexpr int64_t kMostRows = 200;
  html::Table table("Changes of level of all series", columns(true));
  int64_t judged = 0, left = 0, shorter = 0;
  const size_t least = 2 * ChangePointOptions().segment;
  for (const auto& [name, history] : histories(source, "? = ''", "")) {
    (history.values.size() < least ? shorter : judged) += 1;
    for (auto& row : rows(history)) {
      row.insert(row.begin(), html::cut(name, 120));
      if (table.rows() < kMostRows)
        table.row(row);
      else
        ++left;
    }
  }
  if (judged + shorter == 0) return html::notice("No series was measured.");
  return table.html_or("No series changed its level.") +
         (left > 0 ? "<p class=\"quiet\">" + html::plural(left, "more change", "more changes") + ".</p>"
                   : "") +
         "<p class=\"quiet\">" + html::plural(judged, "series was", "series were") + " looked at; " +
         html::plural(shorter, "has", "have") + " fewer than " + html::grouped(static_cast<int64_t>(least)) +
         " runs.</p>" + limits("200 runs");
}

}  // namespace lockstep::dashboard
