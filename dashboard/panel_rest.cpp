// SPDX-License-Identifier: Apache-2.0
// Planted faults, expected exceptions, and where all this ran.
#include "dashboard/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

std::string render_faults(const Source& source, nlohmann::json&) {
  std::string rows;
  int64_t found = 0, small = 0, index = 0;
  source.each(
      "SELECT fault, class, found, cases, shrunk_ops, suite, token, note FROM v_faults WHERE run_id IN shown "
      "ORDER BY found, class, fault",
      [&](const Row& r) {
        const std::string id = "f" + std::to_string(index++);
        found += r.integer(2);
        small += r.integer(2) && r.integer(4) <= 3;
        rows +=
            std::string("<tr><td>") +
            (r.integer(2) ? "<span class=\"yes\">✓ found</span>" : "<span class=\"no\">✗ survived</span>") +
            "</td><th scope=\"row\">" + r.html(0) +
            (r.text(7).empty() ? "" : "<br><span class=\"quiet\">" + r.html(7) + "</span>") + "</th><td>" +
            r.html(1) + "</td><td class=\"num\">" + r.grouped(3) + "</td><td class=\"num\">" +
            (r.integer(2) ? r.grouped(4) : "–") + "</td><td>" + r.html(5) + "</td><td>" +
            (r.text(6).empty() ? ""
                               : "<code class=\"cut\" id=\"" + id + "\">" + r.html(6) + "</code>" +
                                     html::copy_button(id, "token")) +
            "</td></tr>";
      });
  if (index == 0)
    return "<p class=\"empty\">No fault was planted. <code>lockstep run --suite faults</code> plants them "
           "all.</p>";
  return "<p>A harness that finds nothing may be blind. These faults were planted on purpose: <b>" +
         grouped(found) + " of " + grouped(index) + "</b> were found, <b>" + grouped(small) +
         "</b> shrunk to three ops or fewer.</p><div class=\"scroll\"><table><caption "
         "class=\"hidden\">Planted faults"
         "</caption><thead><tr><th>Outcome</th><th>Fault</th><th>Class</th><th class=\"num\">Cases until "
         "found</th><th class=\"num\">Shrunk to ops</th>"
         "<th>Suite</th><th>Token</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

std::string render_exceptions(const Source& source, nlohmann::json&) {
  std::string rows;
  const int64_t n = source.each(
      "SELECT op, dtype, reason, sum(hits) FROM v_exceptions WHERE run_id IN shown GROUP BY op, dtype, "
      "reason ORDER BY op, dtype",
      [&](const Row& r) {
        rows += "<tr><th scope=\"row\">" + r.html(0) + "</th><td>" + r.html(1) + "</td><td>" + r.html(2) +
                "</td><td class=\"num\">" + r.grouped(3) + "</td></tr>";
      });
  if (n == 0) return "<p class=\"empty good\">None: no op is excused.</p>";
  return "<p>" + plural(n, "op and dtype", "ops and dtypes") +
         " may differ, each for a stated reason. A test fails when one of them no longer does.</p>"
         "<div class=\"scroll\"><table><thead><tr><th>Op</th><th>Dtype</th><th>Reason</th><th "
         "class=\"num\">Times</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
}

namespace {

std::string run_table(const Source& source, const std::string& where) {
  std::string rows;
  source.each(
      "SELECT run, command, seed, state, exit_code, time, seconds, cases, failures, substr(build_hash, 1, "
      "12) FROM v_summary WHERE " +
          where + " ORDER BY time DESC, run LIMIT 50",
      [&](const Row& r) {
        rows += "<tr><th scope=\"row\">" + r.html(0) + "</th><td><code class=\"wrap\">" + r.html(1) +
                "</code></td><td class=\"num\">" + r.html(2) + "</td><td>" + r.html(3) +
                (r.null(4) ? "" : ", code " + r.html(4)) + "</td><td>" + html::time(r.integer(5)) +
                "</td><td class=\"num\">" + (r.null(6) ? "–" : html::duration(r.number(6))) +
                "</td><td class=\"num\">" + r.grouped(7) + "</td><td class=\"num\">" + r.grouped(8) +
                "</td></tr>";
      });
  if (rows.empty()) return "";
  return "<div class=\"scroll\"><table><thead><tr><th>Run</th><th>Command</th><th "
         "class=\"num\">Seed</th><th>State</th><th>Started</th><th class=\"num\">Took</th>"
         "<th class=\"num\">Cases</th><th class=\"num\">Failures</th></tr></thead><tbody>" +
         rows + "</tbody></table></div>";
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
