// SPDX-License-Identifier: Apache-2.0
// Charts of measured series, of padding and of commits.
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
  source.each(R"(SELECT series FROM points WHERE series NOT IN (SELECT series FROM paddings)
      GROUP BY series HAVING count(*) > 1 ORDER BY series LIMIT 24)",
              [&](const Row& r) {
                figures += plot(source, "series-" + std::to_string(drawn++), r.text(0),
                                r.text(0).substr(0, 120), charts);
              });
  return figures.empty() ? "" : html::element("div.many", figures);
}

std::string draw_one_series(const Source& source, nlohmann::json& charts, const Texts& texts) {
  return plot(source, "series-0", texts[0], texts[0] + ": median and range by commit", charts);
}

std::string draw_padding(const Source& source, nlohmann::json& charts, const Texts&) {
  std::string figures;
  source.each("SELECT DISTINCT rows FROM paddings ORDER BY rows", [&](const Row& blocks) {
    const std::string rows = blocks.text(0), id = "padding-" + rows;
    nlohmann::json made = source.columns(
        "SELECT DISTINCT ranks AS labels FROM paddings WHERE rows = ?1 ORDER BY ranks", {rows});
    made.update({{"id", id}, {"kind", "lines"}, {"unit", "% of the elements"}, {"along", "ranks"}});
    source.each("SELECT DISTINCT model FROM paddings WHERE rows = ?1 ORDER BY model",
                [&](const Row& model) {
                  auto line = source.columns(
                      R"(SELECT value AS "values" FROM (SELECT DISTINCT ranks FROM paddings WHERE rows = ?1)
              LEFT JOIN (SELECT ranks, value FROM paddings WHERE rows = ?1 AND model = ?2) USING (ranks)
              ORDER BY ranks)",
                      {rows, model.text(0)});
                  line["name"] = model.text(0);
                  made["lines"].push_back(std::move(line));
                },
                {rows});
    charts["plots"].push_back(std::move(made));
    figures +=
        html::figure(id, "Padding in blocks of " + rows + (rows == "1" ? " row" : " rows") + ", by ranks");
  });
  return figures.empty() ? "" : html::element("div.many", figures);
}

std::string draw_trend(const Source& source, nlohmann::json& charts, const Texts&) {
  charts["plots"].push_back(source.columns(R"(SELECT substr(commit_id, 1, 12) AS labels, failures,
      nondeterministic AS unstable, cases FROM (SELECT * FROM v_commits ORDER BY position DESC LIMIT 60)
      ORDER BY position)"));
  charts["plots"].back().update({{"id", "trend"}, {"kind", "trend"}});
  return html::figure("trend", "Failures and cases by commit");
}

}  // namespace lockstep::dashboard
