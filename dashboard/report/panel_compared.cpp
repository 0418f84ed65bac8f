// SPDX-License-Identifier: Apache-2.0
// What belongs to imported curves and logs of digests beside the charts: where the digests part, what the two
// environments say differently, and what the readers left out.
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

namespace {

std::string where(const Row& r) {
  if (r.null(3)) return "<span class=\"yes\">nowhere</span>";
  return "step " + r.grouped(3) + ", position " + r.grouped(4) + ", rank " + r.grouped(5);
}

std::string in_words(const std::string& what) {
  if (what == "output") return "output differs, inputs agree: this op is at fault";
  if (what == "input") return "input differs: what made it was not logged";
  if (what == "missing") return "missing in the candidate";
  return what == "sequence" ? "another op, or one more" : "";
}

std::string divergences(const Source& source) {
  html::Table table("Logs of digests", {{"Candidate", "key"},
                                        {"Reference"},
                                        {"Entries compared", "num"},
                                        {"First divergence"},
                                        {"Op"},
                                        {"What"},
                                        {"Expected"},
                                        {"Got"}});
  source.each(
      "SELECT curve, reference, compared, step, position, rank, op, what, expected, got FROM v_divergence "
      "WHERE run_id IN shown ORDER BY run_id, curve, reference",
      [&](const Row& r) {
        table.row({r.html(0), r.html(1), r.grouped(2), where(r), "<code>" + r.html(6) + "</code>",
                   in_words(r.text(7)), "<code class=\"wrap\">" + r.html(8) + "</code>",
                   "<code class=\"wrap\">" + r.html(9) + "</code>"});
      });
  return table.rows() == 0 ? "" : "<h3>Where logged digests first part</h3>" + table.html();
}

// Facts "reference.NAME" beside "candidate.NAME"; those that differ first.
std::string environments(const Source& source) {
  html::Table table("Environments", {{"Fact", "key"}, {"Reference"}, {"Candidate"}, {"Same"}});
  source.each(
      R"(WITH side AS (SELECT run, substr(name, 1, 9) AS side, substr(name, 11) AS name, value
           FROM v_environment WHERE run_id IN shown AND (name LIKE 'reference.%' OR name LIKE 'candidate.%')),
         both AS (SELECT run, name, max(value) FILTER (WHERE side = 'reference') AS a,
                         max(value) FILTER (WHERE side = 'candidate') AS b FROM side GROUP BY run, name)
         SELECT run, name, coalesce(a, 'not said'), coalesce(b, 'not said'), a IS b FROM both
         ORDER BY run, a IS b, name)",
      [&](const Row& r) {
        table.row({r.html(1), r.html(2), r.html(3), html::yes_no(r.integer(4) != 0, "same", "differs")});
      });
  return table.rows() == 0 ? "" : "<h3>The two environments</h3>" + table.html();
}

std::string notes(const Source& source) {
  std::string s;
  source.each(
      "SELECT name, value FROM v_environment WHERE run_id IN shown AND (name LIKE 'source of %' OR name LIKE "
      "'note on %') ORDER BY run_id, name LIKE 'note on %', name DESC, value",
      [&](const Row& r) { s += "<li><b>" + r.html(0) + "</b>: " + r.html(1) + "</li>"; });
  return s.empty() ? "" : "<h3>Sources, and what was left out</h3><ul>" + s + "</ul>";
}

}  // namespace

std::string render_compared(const Source& source) {
  return divergences(source) + environments(source) + notes(source);
}

}  // namespace lockstep::dashboard
