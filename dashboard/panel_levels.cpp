// SPDX-License-Identifier: Apache-2.0
// Where a measured series changed its level, on the machine that measured it last.
#include <cmath>
#include <vector>

#include "ci/perf/statistics/change_points.h"
#include "dashboard/panels.h"

namespace lockstep::dashboard {
namespace {

struct History {
  std::vector<double> values;
  std::vector<std::string> commits;
  std::vector<int64_t> times;
};

// Medians of one machine, in the order of time: those of another say nothing about the binary.
History history_of(const Source& source, const std::string& series) {
  History history;
  source.each(R"(WITH mine AS (SELECT * FROM v_series WHERE series = ? AND value IS NOT NULL),
      newest AS (SELECT cpu, cores FROM mine ORDER BY time DESC, run_id DESC LIMIT 1)
    SELECT value, commit_id, time FROM mine JOIN newest USING (cpu, cores) ORDER BY time, run_id)",
              [&](const Row& r) {
                history.values.push_back(r.number(0));
                history.commits.push_back(r.text(1));
                history.times.push_back(r.integer(2));
              },
              {series});
  return history;
}

std::string change(double effect) {
  return std::string(effect < 0 ? "−" : "+") + html::brief(std::abs(100 * effect)) + " %";
}

}  // namespace

std::string series_levels(const Source& source, const std::string& series, const std::string& unit) {
  const History history = history_of(source, series);
  const perf::ChangePointOptions options;
  const auto found = perf::change_points(history.values, options);
  html::Table table("Changes of level", {{"Since commit", "key"},
                                         {"Measured"},
                                         {"Before", "num"},
                                         {"After", "num"},
                                         {"Change", "num"},
                                         {"p", "num"}});
  for (const auto& point : found.points)
    table.row(
        {"<code>" + html::cut(history.commits[point.position], 16) + "</code>",
         html::time(history.times[point.position]), html::brief(point.before) + " " + html::escape(unit),
         html::brief(point.after) + " " + html::escape(unit), change(point.effect), html::brief(point.p)});
  const auto late = static_cast<int64_t>(history.values.size() - found.judged);
  return table.html_or("No change of level was found on the machine that measured last.") +
         "<p class=\"quiet\">E-divisive over the last " +
         html::plural(static_cast<int64_t>(std::min(history.values.size(), options.most)), "run", "runs") +
         " of that machine; a level has at least " + html::grouped(static_cast<int64_t>(options.segment)) +
         " runs, so one that began with the newest " + html::grouped(late) + " is not seen yet.</p>";
}

}  // namespace lockstep::dashboard
