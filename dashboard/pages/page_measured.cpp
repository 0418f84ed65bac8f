// SPDX-License-Identifier: Apache-2.0
// Training curves, measured series, and what the gate decided.
#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

Page page_curves(const View& view) {
  int64_t curves = 0, identical = 0, unexplained = 0;
  view.source.each(
      "SELECT count(*), coalesce(sum(first_differing_step IS NULL), 0), coalesce(sum(unexplained > 0), 0) "
      "FROM "
      "v_curve_diff WHERE run_id IN shown",
      [&](const Row& r) { curves = r.integer(0), identical = r.integer(1), unexplained = r.integer(2); });
  Page page{.question = "Does training follow the curve of one device, and where does it leave it?",
            .headline = curves == 0
                            ? "No curve was compared."
                            : grouped(identical) + " of " + plural(curves, "curve keeps", "curves keep") +
                                  " the bits of the reference throughout.",
            .status = curves == 0           ? "warn"
                      : unexplained > 0     ? "bad"
                      : identical == curves ? "ok"
                                            : ""};
  page.body = section("curves", "Training curves", render_curves(view.source, view.charts)) +
              section("drift", "Drift", render_drift(view.source, view.charts)) +
              section("divergence", "Where logged runs part", render_divergence(view.source, view.charts));
  return page;
}

Page page_performance(const View& view) {
  int64_t series = 0, slower = 0, unmeasured = 0;
  series = view.source.integer("SELECT count(DISTINCT series) FROM v_series");
  view.source.each(
      R"(SELECT coalesce(sum(verdict IN ('slower', 'changed')), 0), coalesce(sum(verdict = 'not measured'), 0)
      FROM v_series_verdicts WHERE judgement =
        (SELECT judgement FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1))",
      [&](const Row& r) { slower = r.integer(0), unmeasured = r.integer(1); });
  const bool judged = view.source.integer("SELECT count(*) FROM v_series_verdicts") > 0;
  Page page{.question = "Did it become slower, and since which commit?"};
  page.headline = series == 0  ? "Nothing was measured."
                  : slower > 0 ? plural(slower, "series is worse.", "series are worse.")
                  : !judged    ? plural(series, "series", "series") + " measured, none judged yet."
                  : unmeasured > 0
                      ? plural(unmeasured, "series was", "series were") + " not measured well enough to say."
                      : "No series is slower.";
  page.status = slower > 0 ? "bad" : series == 0 || !judged || unmeasured > 0 ? "warn" : "ok";
  page.body =
      section("series", "Series over commits", render_series(view.source, view.charts)) +
      section("throughput", "Throughput of the runs shown here", render_throughput(view.source, view.charts));
  return page;
}

Page page_series(const View& view) {
  const std::string name = view.query.text("name");
  const std::string body = series_body(view.source, name, view.charts);
  if (body.empty()) throw NotFound("No series of this store has this name.");
  const html::Table table =
      series_verdict_table(view.source, "Judgements of the series", "Judged",
                           "WHERE series = ? ORDER BY time DESC LIMIT 100", name, [&](const Row& r) {
                             return view.source.link(html::time(r.integer(kTimeColumn)), "judgement",
                                                     {{"id", r.text(kJudgementColumn)}});
                           });
  return {
      .question = "How did this series move, and when?",
      .headline = html::cut(name, 120),
      .body =
          section("series", "Commit by commit", body) +
          section("judged", "What the gate said of it",
                  table.html_or("The gate never compared this series. <code>lockstep gate</code> does."))};
}

Page page_judgements(const View& view) {
  html::Table table("Judgements, the newest first", {{"Judged", "key"},
                                                     {"Outcome"},
                                                     {"Commit"},
                                                     {"Blocking", "num"},
                                                     {"Warnings", "num"},
                                                     {"Findings", "num"},
                                                     {"Candidate"},
                                                     {"Baseline"}});
  bool passed = true;
  view.source.each(
      "SELECT judgement, time, exit_code, commit_id, blocking, warnings, findings, candidate, baseline FROM "
      "v_judgements ORDER BY time DESC, judgement DESC LIMIT 200",
      [&](const Row& r) {
        if (table.rows() == 0) passed = r.integer(2) == 0;
        table.row({view.source.link(html::time(r.integer(1)), "judgement", {{"id", r.text(0)}}),
                   html::yes_no(r.integer(2) == 0, "passed", "code " + r.text(2)),
                   "<code>" + html::cut(r.text(3), 16) + "</code>", r.grouped(4), r.grouped(5), r.grouped(6),
                   "<code class=\"wrap\">" + html::cut(r.text(7), 80) + "</code>",
                   "<code class=\"wrap\">" + html::cut(r.text(8), 80) + "</code>"});
      });
  html::Table blessed("Blessed changes",
                      {{"Rule", "key"}, {"Subject"}, {"Value"}, {"Reason"}, {"By"}, {"When"}});
  view.source.each(
      "SELECT rule, subject, got, reason, blessed_by, time FROM v_blessings ORDER BY time DESC LIMIT 200",
      [&](const Row& r) {
        blessed.row({r.html(0), "<span class=\"wrap\">" + html::cut(r.text(1), 200) + "</span>",
                     html::cut(r.text(2), 120), html::cut(r.text(3), 400), r.html(4),
                     html::time(r.integer(5))});
      });
  const bool none = table.rows() == 0;
  return {.question = "What did the gate decide, and why?",
          .headline = none     ? "No judgement is stored."
                      : passed ? "The newest judgement passed."
                               : "The newest judgement is red.",
          .status = none     ? "warn"
                    : passed ? "ok"
                             : "bad",
          .body = section("newest", "The newest judgement", render_judgement(view.source, view.charts)) +
                  (none ? "" : section("judgements", "All judgements", table.html())) +
                  section("blessed", "Blessed changes",
                          blessed.html_or(
                              "Nobody blessed a change. <code>lockstep bless</code> does, with a reason."))};
}

Page page_judgement(const View& view) {
  const auto id = view.query.number("id", 1, INT64_MAX);
  if (!id) throw BadQuery("\"id\" is the number of a judgement");
  const std::string number = std::to_string(*id);
  const std::string code =
      view.source.text("SELECT exit_code FROM v_judgements WHERE judgement = ?", {number});
  if (code.empty()) throw NotFound("No judgement of this store has this number.");
  const std::string policy =
      view.source.text("SELECT policy FROM v_judgements WHERE judgement = ?", {number});
  return {.question = "What did the gate find?",
          .headline = code == "0" ? "It passed." : "It is red, with code " + html::escape(code) + ".",
          .status = code == "0" ? "ok" : "bad",
          .body = section("judgement", "Findings", judgement_body(view.source, number)) +
                  section("policy", "Policy in force", html::code_block("policy-text", "Policy", policy))};
}

}  // namespace lockstep::dashboard
