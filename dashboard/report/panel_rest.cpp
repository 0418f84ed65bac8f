// SPDX-License-Identifier: Apache-2.0
// Planted faults, expected exceptions, refusals, what the judge forgave, and where all this ran.
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

std::string render_faults(const Source& source, nlohmann::json&) {
  html::Table table("Planted faults", {{"Fault", "key"},
                                       {"Outcome"},
                                       {"Class"},
                                       {"Cases until found", "num"},
                                       {"Shrunk to ops", "num"},
                                       {"Suite"},
                                       {"Token"}});
  int64_t found = 0, small = 0;
  source.each(
      "SELECT fault, class, found, cases, shrunk_ops, suite, token, note FROM v_faults WHERE run_id IN shown "
      "ORDER BY found, class, fault",
      [&](const Row& r) {
        const std::string id = "f" + std::to_string(table.rows());
        found += r.integer(2);
        small += r.integer(2) && r.integer(4) <= 3;
        const std::string token =
            "<code class=\"cut\" id=\"" + id + "\">" + r.html(6) + "</code>" + html::copy_button(id, "token");
        table.row(
            {r.html(0) + (r.text(7).empty() ? "" : "<br><span class=\"quiet\">" + r.html(7) + "</span>"),
             html::yes_no(r.integer(2), "found", "survived"), r.html(1), r.grouped(3),
             r.integer(2) ? r.grouped(4) : "–", r.html(5), r.text(6).empty() ? "–" : token});
      });
  if (table.rows() == 0) {
    return "<p class=\"empty\">No fault was planted. <code>lockstep run --suite faults</code> plants them "
           "all.</p>";
  }
  return "<p>A harness that finds nothing may be blind. These faults were planted on purpose: <b>" +
         grouped(found) + " of " + grouped(table.rows()) + "</b> were found, <b>" + grouped(small) +
         "</b> shrunk to three ops or fewer.</p>" + table.html();
}

std::string render_exceptions(const Source& source, nlohmann::json&) {
  html::Table table("Expected exceptions", {{"Op", "key"}, {"Dtype"}, {"Reason"}, {"Times", "num"}});
  source.each(
      "SELECT op, dtype, reason, sum(hits) FROM v_exceptions WHERE run_id IN shown GROUP BY op, dtype, "
      "reason ORDER BY op, dtype",
      [&](const Row& r) {
        table.row({r.html(0), r.html(1), r.html(2), r.grouped(3)});
      });
  if (table.rows() == 0) return "<p class=\"empty good\">None: no op is excused.</p>";
  return "<p>" + plural(table.rows(), "entry", "entries") +
         " of op and dtype may differ, each for a stated reason. A test fails when "
         "one of them no longer does.</p>" +
         table.html();
}

namespace {

std::string refusal_table(const Source& source) {
  html::Table table("Cases that gave up", {{"Op", "key"}, {"Reason"}, {"Suite"}, {"Cases", "num"}});
  source.each(
      "SELECT op, reason, suite, sum(hits) FROM v_refusals WHERE run_id IN shown GROUP BY op, reason, suite "
      "ORDER BY 4 DESC, op, reason, suite",
      [&](const Row& r) {
        table.row({r.text(0).empty() ? "–" : r.html(0), r.html(1), r.html(2), r.grouped(3)});
      });
  return table.html_or("No case gave up with a reason that was counted.");
}

std::string forgiven_table(const Source& source) {
  html::Table table("Forgiven", {{"Op", "key"}, {"Kind"}, {"Times", "num"}, {"Reason", "wide"}});
  source.each(
      "SELECT op, kind, sum(hits), reason FROM v_forgiven WHERE run_id IN shown GROUP BY op, kind, reason "
      "ORDER BY kind, 3 DESC, op",
      [&](const Row& r) {
        table.row({r.html(0), r.html(1), r.grouped(2), r.html(3)});
      });
  return table.html_or("Nothing was forgiven.", "good");
}

}  // namespace

std::string render_refusals(const Source& source, nlohmann::json&) {
  return "<p>A case gives up where the engine refuses it by its documentation, or its form is not built: "
         "neither a pass nor a failure. The gate compares these counts with its baseline's.</p>" +
         refusal_table(source) +
         "<h3>Forgiven</h3><p>Where the engine and one device reach the same values by way of other "
         "bookkeeping, the judge lets their logs differ, each time for one of these reasons. Values are "
         "never "
         "forgiven.</p>" +
         forgiven_table(source);
}

namespace {

std::string run_table(const Source& source, const std::string& where) {
  html::Table table("Runs", {{"Run", "key"},
                             {"Command"},
                             {"Seed", "num"},
                             {"State"},
                             {"Started"},
                             {"Took", "num"},
                             {"Cases", "num"},
                             {"Failures", "num"}});
  source.each(
      "SELECT run, command, seed, state, exit_code, time, seconds, cases, failures FROM v_summary WHERE " +
          where + " ORDER BY time DESC, run LIMIT 50",
      [&](const Row& r) {
        table.row({r.html(0), "<code class=\"wrap\">" + r.html(1) + "</code>", r.html(2),
                   r.html(3) + (r.null(4) ? "" : ", code " + r.html(4)), html::time(r.integer(5)),
                   r.null(6) ? "–" : html::duration(r.number(6)), r.grouped(7), r.grouped(8)});
      });
  return table.html();
}

}  // namespace

std::string render_environment(const Source& source, nlohmann::json&) {
  std::string s = "<dl class=\"facts\">";
  const int64_t n = source.each(
      R"(SELECT name, group_concat(value, ' · ') FROM (SELECT DISTINCT name, value FROM v_environment
      WHERE run_id IN shown ORDER BY name, value) GROUP BY name)",
      [&](const Row& r) { s += "<div><dt>" + r.html(0) + "</dt><dd>" + r.html(1) + "</dd></div>"; });
  if (n == 0) return "<p class=\"empty\">No run was recorded.</p>";
  s += "</dl><h3>Runs on this page</h3>" + run_table(source, "run_id IN shown");
  const std::string older = run_table(source, "run_id NOT IN shown");
  return older.empty()
             ? s
             : s + "<details><summary>Runs of other builds in this store</summary>" + older + "</details>";
}

}  // namespace lockstep::dashboard
