// SPDX-License-Identifier: Apache-2.0
// The heat map op x placement, and what was covered and what was not.
#include "dashboard/report/heat_map.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

HeatMap matrix_of(const Source& source, const std::string& rank) {
  HeatMap map;
  source.each(R"(SELECT op, placement, verdict, severity, sum(hits) FROM v_matrix WHERE run_id IN shown
      AND (?1 = '' OR mesh_rank = CAST(?1 AS INTEGER))
      GROUP BY op, placement, verdict ORDER BY op, placement, severity)",
              [&](const Row& r) { map.add(r.text(0), r.text(1), r.text(2), r.integer(3), r.integer(4)); },
              {rank});
  return map;
}

// How much of all pairs of an op with this attribute was seen.
std::string pair_share(const Source& source, const std::string& kind, const std::string& column,
                       const std::string& words) {
  const int64_t seen = source.integer("SELECT count(*) FROM (SELECT DISTINCT op, " + column +
                                      " FROM v_coverage WHERE run_id IN shown)");
  const int64_t all = source.integer("SELECT count(DISTINCT op) * count(DISTINCT " + column +
                                     ") FROM v_coverage WHERE run_id IN shown");
  if (all == 0) return "";
  const double share = 100.0 * static_cast<double>(seen) / static_cast<double>(all);
  return "<div class=\"meter\"><span class=\"label\">op × " + kind +
         "</span><div class=\"track\" role=\"img\" aria-label=\"" + html::brief(share) +
         " percent\"><span style=\"width:" + html::brief(share) + "%\"></span></div><span class=\"note\">" +
         grouped(seen) + " of " + grouped(all) + " pairs · " + words + "</span></div>";
}

std::string gap_table(const Source& source) {
  constexpr size_t kMostText = 240;
  html::Table table("Placements not seen",
                    {{"Op", "key"}, {"Seen", "num"}, {"Not seen", "num"}, {"Placements that other ops had"}});
  source.each(R"(SELECT o.op, o.seen, group_concat(g.value, '  '), count(g.value) FROM
      (SELECT op, count(DISTINCT placement) AS seen FROM v_coverage WHERE run_id IN shown GROUP BY op) o
      JOIN (SELECT DISTINCT op, value FROM v_coverage_gaps WHERE kind = 'placement' AND run_id IN shown) g
      ON g.op = o.op
      GROUP BY o.op ORDER BY count(g.value) DESC, o.op LIMIT 20)",
              [&](const Row& r) {
                const std::string list = r.text(2);
                table.row({r.html(0), r.grouped(1), r.grouped(3),
                           "<code class=\"wrap\">" + html::escape(list.substr(0, kMostText)) +
                               (list.size() > kMostText ? " …" : "") + "</code>"});
              });
  if (table.rows() == 0) return "";
  return "<details><summary>Ops with the most placements not seen</summary>" + table.html() + "</details>";
}

std::string label_list(const Source& source) {
  std::string s;
  source.each(
      "SELECT label, sum(hits) FROM v_labels WHERE run_id IN shown AND label NOT LIKE 'golden %: %' "
      "GROUP BY label ORDER BY 2 DESC, 1",
      [&](const Row& r) { s += "<li>" + r.html(0) + " <b>" + r.grouped(1) + "</b></li>"; });
  return s.empty() ? "" : "<h3>Labels</h3><ul class=\"tags\">" + s + "</ul>";
}

std::string missing_ops(const Source& source) {
  std::string s;
  const int64_t n =
      source.each("SELECT DISTINCT op FROM v_coverage_gaps WHERE kind = 'op' AND run_id IN shown ORDER BY op",
                  [&](const Row& r) { s += "<li>" + r.html(0) + "</li>"; });
  if (source.integer("SELECT count(*) FROM expected_op WHERE run IN shown") == 0) return "";
  if (n == 0) return "<p class=\"empty good\">Every op that a run must reach was reached.</p>";
  return "<h3>" + plural(n, "op had to be reached and was not", "ops had to be reached and were not") +
         "</h3><ul class=\"tags warn\">" + s + "</ul>";
}

}  // namespace

std::string matrix_body(const Source& source, const std::string& rank) {
  const HeatMap map = matrix_of(source, rank);
  if (map.empty()) return html::notice("No op was recorded.");
  return "<p>Each square is the worst verdict of an op on a placement pattern, wherever the op ran: alone or "
         "inside a program.</p>" +
         map.html(source, "placement pattern", "placement");
}

std::string render_matrix(const Source& source, nlohmann::json&) {
  return matrix_body(source, "");
}

std::string render_coverage(const Source& source, nlohmann::json&) {
  const int64_t tuples = source.integer(
      "SELECT count(*) FROM (SELECT DISTINCT op, placement, mesh_rank, evenness FROM v_coverage WHERE run_id "
      "IN shown)");
  if (tuples == 0) return "<p class=\"empty\">No coverage was recorded.</p>" + missing_ops(source);
  return "<p>" + plural(tuples, "tuple", "tuples") +
         " of op, placement, mesh rank and evenness were met. Pairs that make no sense for an op "
         "count as not seen, so these shares do not reach 100 %.</p><div class=\"meters\">" +
         pair_share(source, "placement", "placement", "patterns of all inputs") +
         pair_share(source, "mesh rank", "mesh_rank", "mesh dimensions") +
         pair_share(source, "evenness", "evenness", "even, uneven, empty shards") + "</div>" +
         missing_ops(source) + gap_table(source) + label_list(source);
}

}  // namespace lockstep::dashboard
