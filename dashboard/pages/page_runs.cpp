// SPDX-License-Identifier: Apache-2.0
// All runs of the store, and two of them chosen to be compared.
#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::plural;

namespace {

constexpr int64_t kRunsOnPage = 100;

}  // namespace

Page page_runs(const View& view) {
  const std::string commit = view.query.text("commit");
  const int64_t page = view.query.number("page", 1, 1'000'000).value_or(1);
  html::Table table("Runs, the newest first", {{"Run", "key"},
                                               {"Compare"},
                                               {"State"},
                                               {"Cases", "num"},
                                               {"Failures", "num"},
                                               {"Commit"},
                                               {"Started"},
                                               {"Took", "num"},
                                               {"Command"}});
  const int64_t all = view.source.integer("SELECT count(*) FROM v_summary");
  view.source.each(
      "SELECT run_id, run, state, exit_code, cases, failures, commit_id, time, seconds, command FROM "
      "v_summary "
      "WHERE ?1 = '' OR commit_id = ?1 ORDER BY time DESC, run LIMIT " +
          std::to_string(kRunsOnPage) + " OFFSET " + std::to_string((page - 1) * kRunsOnPage),
      [&](const Row& r) {
        const std::string value = html::escape(view.database) + ":" + r.text(0),
                          words = html::cut(r.text(1), 40);
        const auto pick = [&](const char* side, const char* letter) {
          const bool on = table.rows() == (*side == 'a' ? 1 : 0);
          return std::string("<label class=\"pick\"><input type=\"radio\" name=\"") + side + "\" value=\"" +
                 value + "\"" + (on ? " checked" : "") + "><span class=\"hidden\">" + words +
                 " as the </span>" + letter + "</label>";
        };
        const std::string failures =
            r.integer(5) > 0 ? "<span class=\"no\">✗ " + r.grouped(5) + "</span>" : "0";
        table.row({view.source.link(html::cut(r.text(1), 60), "", {{"run", r.text(0)}}),
                   pick("a", "first") + " " + pick("b", "second"),
                   r.html(2) + (r.null(3) ? "" : ", code " + r.html(3)), r.grouped(4), failures,
                   "<code>" + html::cut(r.text(6), 16) + "</code>", html::time(r.integer(7)),
                   r.null(8) ? "–" : html::duration(r.number(8)),
                   "<code class=\"wrap\">" + html::cut(r.text(9), 160) + "</code>"});
      },
      {commit});
  std::string s =
      "<form method=\"get\" action=\"/compare\" aria-label=\"Compare two runs\"><p>Choose a first and a "
      "second run, then <button type=\"submit\">Compare them</button></p>" +
      table.html() + "</form>";
  if (table.rows() == 0) s = html::notice("No run is here. <code>lockstep run --db …</code> makes one.");
  if (all > page * kRunsOnPage)
    s += "<p>" +
         view.source.link("Older runs", "runs", {{"page", std::to_string(page + 1)}, {"commit", commit}}) +
         "</p>";
  return {.question = "Which runs are in this store, and how do two of them differ?",
          .headline = plural(all, "run", "runs"),
          .body = section("runs", "Runs", s)};
}

}  // namespace lockstep::dashboard
