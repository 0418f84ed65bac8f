// SPDX-License-Identifier: Apache-2.0
// Charts of measured series and of commits.
#include "dashboard/report/html.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

namespace {

// A chart of the series' points with a mark where the gate saw a change.
std::string plot(const Source& source, const std::string& id, const std::string& name,
                 const std::string& caption, nlohmann::json& charts) {
  nlohmann::json made = source.columns(R"(SELECT substr(commit_id, 1, 12) AS labels, value, low, high,
      coalesce(verdict, '') AS marks FROM points WHERE series = ?1 ORDER BY time, run_id)",
                                       {name});
  const std::string unit =
      source.text("SELECT unit FROM points WHERE series = ?1 ORDER BY time DESC, run_id DESC", {name});
  made.update({{"id", id}, {"kind", "band"}, {"title", name}, {"unit", unit}});
  charts["plots"].push_back(std::move(made));
  return html::figure(id, caption);
}

}  // namespace

std::string draw_series(const Source& source, nlohmann::json& charts, const Texts&) {
  std::string figures;
  int64_t drawn = 0;
  source.each("SELECT series FROM points GROUP BY series HAVING count(*) > 1 ORDER BY series LIMIT 24",
              [&](const Row& r) {
                figures += plot(source, "series-" + std::to_string(drawn++), r.text(0),
                                r.text(0).substr(0, 120), charts);
              });
  return figures.empty() ? "" : html::element("div.many", figures);
}

std::string draw_one_series(const Source& source, nlohmann::json& charts, const Texts& texts) {
  return plot(source, "series-0", texts[0], texts[0] + ": median and range by commit", charts);
}

std::string draw_trend(const Source& source, nlohmann::json& charts, const Texts&) {
  charts["plots"].push_back(source.columns(R"(SELECT substr(commit_id, 1, 12) AS labels, failures,
      nondeterministic AS unstable, cases FROM (SELECT * FROM v_commits ORDER BY position DESC LIMIT 60)
      ORDER BY position)"));
  charts["plots"].back().update({{"id", "trend"}, {"kind", "trend"}});
  return html::figure("trend", "Failures and cases by commit");
}

}  // namespace lockstep::dashboard
