// SPDX-License-Identifier: Apache-2.0
// Measured series over the commits of the store: median, range of the samples, and what the gate said.
#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::plural;

namespace {

constexpr size_t kMostCharts = 24;
constexpr int64_t kMostRows = 500;

struct Point {
  std::string commit, verdict;
  double value = 0, low = 0, high = 0;
  int64_t time = 0, samples = 0;
};

struct Measured {
  std::string area, kind, better, unit;
  std::vector<Point> points;  // in the order of time
};

// Name -> its points. `where` is a condition on v_series with one `?`, bound to `text`.
std::map<std::string, Measured> measured(const Source& source, const std::string& where,
                                         const std::string& text) {
  std::map<std::string, Measured> all;
  source.each(
      "SELECT series, area, kind, better, unit, commit_id, time, samples, value, low, high FROM v_series "
      "WHERE " +
          where + " ORDER BY series, time, run_id",
      [&](const Row& r) {
        Measured& m = all[r.text(0)];
        m.area = r.text(1), m.kind = r.text(2), m.better = r.text(3), m.unit = r.text(4);
        m.points.push_back({.commit = r.text(5),
                            .verdict = "",
                            .value = r.number(8),
                            .low = r.number(9),
                            .high = r.number(10),
                            .time = r.integer(6),
                            .samples = r.integer(7)});
      },
      {text});
  source.each("SELECT series, commit_id, verdict FROM v_series_verdicts ORDER BY time", [&](const Row& r) {
    const auto found = all.find(r.text(0));
    if (found == all.end()) return;
    for (Point& p : found->second.points)
      if (p.commit == r.text(1)) p.verdict = r.text(2);
  });
  return all;
}

double median_before_last(const std::vector<Point>& points) {
  std::vector<double> values;
  for (size_t i = 0; i + 1 < points.size(); ++i) values.push_back(points[i].value);
  if (values.empty()) return std::nan("");
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

// "+3.2 %" against the median of what came before, with the direction in words.
std::string change_cell(const Measured& m) {
  const double before = median_before_last(m.points);
  if (!std::isfinite(before) || before == 0) return "–";
  const double percent = 100 * (m.points.back().value / before - 1);
  if (std::abs(percent) < 0.05) return "0 %";
  const bool better = (percent < 0) == (m.better == "less");
  return std::string(percent > 0 ? "+" : "−") + html::brief(std::abs(percent)) + " % <span class=\"quiet\">" +
         (better ? "better" : "worse") + "</span>";
}

std::string verdict_cell(const std::string& verdict) {
  if (verdict.empty()) return "<span class=\"quiet\">not judged</span>";
  const bool fine = verdict == "same" || verdict == "faster";
  return html::yes_no(fine, html::escape(verdict), html::escape(verdict));
}

std::string percent_cell(const Row& r, int column) {
  return r.null(column) ? "–" : html::brief(100 * r.number(column)) + " %";
}

nlohmann::json finite(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json plot_of(const std::string& id, const std::string& name, const Measured& m) {
  nlohmann::json plot = {{"id", id}, {"kind", "band"}, {"title", name}, {"unit", m.unit}};
  for (const char* key : {"labels", "value", "low", "high", "marks"}) plot[key] = nlohmann::json::array();
  for (const Point& p : m.points) {
    plot["labels"].push_back(p.commit.substr(0, 12));
    plot["value"].push_back(finite(p.value));
    plot["low"].push_back(finite(p.low));
    plot["high"].push_back(finite(p.high));
    plot["marks"].push_back(p.verdict);
  }
  return plot;
}

}  // namespace

html::Table series_verdict_table(const Source& source, const std::string& caption, const char* first,
                                 const std::string& rest, const std::string& parameter,
                                 const std::function<std::string(const Row&)>& first_cell) {
  html::Table table(caption, {{first, "key"},
                              {"Verdict"},
                              {"Against"},
                              {"Ratio", "num"},
                              {"Interval", "num"},
                              {"p, corrected", "num"},
                              {"Smallest effect it can see", "num"},
                              {"False alarms", "num"}});
  source.each(
      "SELECT series, judgement, time, verdict, against, samples, ratio, low, high, p, detectable, "
      "false_alarms "
      "FROM v_series_verdicts " +
          rest,
      [&](const Row& r) {
        table.row({first_cell(r), verdict_cell(r.text(3)), r.html(4) + ", " + r.grouped(5), r.brief(6),
                   r.null(7) ? "–" : r.brief(7) + " – " + r.brief(8), r.brief(9), percent_cell(r, 10),
                   percent_cell(r, 11)});
      },
      {parameter});
  return table;
}

std::string series_body(const Source& source, const std::string& name, nlohmann::json& charts) {
  const auto all = measured(source, "series = ?", name);
  if (all.empty()) return "";
  const Measured& m = all.begin()->second;
  charts["plots"].push_back(plot_of("series-0", name, m));
  html::Table table("Points of the series", {{"Commit", "key"},
                                             {"Measured"},
                                             {"Median", "num"},
                                             {"Lowest", "num"},
                                             {"Highest", "num"},
                                             {"Samples", "num"},
                                             {"The gate says"}});
  const size_t first = m.points.size() > static_cast<size_t>(kMostRows) ? m.points.size() - kMostRows : 0;
  for (size_t i = m.points.size(); i-- > first;) {
    const Point& p = m.points[i];
    table.row({"<code>" + html::cut(p.commit, 16) + "</code>", html::time(p.time),
               html::brief(p.value) + " " + html::escape(m.unit), html::brief(p.low), html::brief(p.high),
               html::grouped(p.samples), verdict_cell(p.verdict)});
  }
  return "<p>" + html::escape(m.kind) + ", less is " + (m.better == "less" ? "better" : "worse") + ", " +
         plural(static_cast<int64_t>(m.points.size()), "run", "runs") +
         ". The line is the median of each run, the band the range of its samples.</p>" +
         html::figure("series-0", name + ": median and range by commit") + series_levels(source, name) +
         table.html();
}

std::string render_series(const Source& source, nlohmann::json& charts) {
  const auto all = measured(source, "? = ''", "");
  if (all.empty()) return html::notice("No series was measured. <code>lockstep bench</code> measures them.");
  html::Table table("Series", {{"Series", "key"},
                               {"Area"},
                               {"Newest", "num"},
                               {"Range", "num"},
                               {"Against its history", "num"},
                               {"Runs", "num"},
                               {"The gate says"}});
  std::string figures;
  size_t drawn = 0;
  for (const auto& [name, m] : all) {
    const Point& last = m.points.back();
    if (table.rows() < kMostRows)
      table.row({source.link(html::cut(name, 120), "series", {{"name", name}}), html::escape(m.area),
                 html::brief(last.value) + " " + html::escape(m.unit),
                 html::brief(last.low) + " – " + html::brief(last.high), change_cell(m),
                 html::grouped(static_cast<int64_t>(m.points.size())), verdict_cell(last.verdict)});
    if (m.points.size() < 2 || drawn >= kMostCharts) continue;
    const std::string id = "series-" + std::to_string(drawn++);
    charts["plots"].push_back(plot_of(id, name, m));
    figures += html::figure(id, name.substr(0, 120));
  }
  if (!figures.empty()) figures = "<div class=\"many\">" + figures + "</div>";
  const auto left = static_cast<int64_t>(all.size()) - table.rows();
  return "<p>Each point is the median of one run, the band the range of its samples. A triangle marks where "
         "the gate saw a change.</p>" +
         table.html() +
         (left > 0 ? "<p class=\"quiet\">" + plural(left, "more series", "more series") +
                         ": the view v_series has them all.</p>"
                   : "") +
         figures;
}

}  // namespace lockstep::dashboard
