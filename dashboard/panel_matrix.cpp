// SPDX-License-Identifier: Apache-2.0
// The heat map op x placement, and what was covered and what was not.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "dashboard/panels.h"

namespace lockstep::dashboard {

using html::grouped;
using html::plural;

namespace {

constexpr size_t kMostColumns = 160;

struct Cell {
  std::string worst, counts;  // verdict; "12 equal, 3 explained"
  int64_t severity = -1, hits = 0;
};

struct Matrix {
  std::map<std::string, std::map<std::string, Cell>> rows;  // by op, by placement
  std::map<std::string, int64_t> columns;                   // hits by placement
};

Matrix matrix_of(const Source& source) {
  Matrix m;
  source.each(R"(SELECT op, placement, verdict, severity, sum(hits) FROM v_matrix WHERE run_id IN shown
      GROUP BY op, placement, verdict ORDER BY op, placement, severity)",
              [&](const Row& r) {
                Cell& cell = m.rows[r.text(0)][r.text(1)];
                cell.counts +=
                    (cell.counts.empty() ? "" : ", ") + r.grouped(4) + " " + html::verdict_words(r.text(2));
                cell.hits += r.integer(4);
                if (r.integer(3) >= cell.severity) {
                  cell.severity = r.integer(3);
                  cell.worst = r.text(2);
                }
                m.columns[r.text(1)] += r.integer(4);
              });
  return m;
}

// One mesh dimension before two, then by text; of too many the least used are left out.
std::vector<std::string> columns_of(const Matrix& m) {
  std::vector<std::string> names;
  for (const auto& [name, hits] : m.columns) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return m.columns.at(a) > m.columns.at(b); });
  if (names.size() > kMostColumns) names.resize(kMostColumns);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const auto commas = [](const std::string& s) { return std::count(s.begin(), s.end(), ','); };
    return std::pair(commas(a), a) < std::pair(commas(b), b);
  });
  return names;
}

std::string matrix_row(const std::string& op, const std::map<std::string, Cell>& cells,
                       const std::vector<std::string>& columns) {
  int64_t worst = 0;
  std::string s;
  for (const std::string& column : columns) {
    const auto cell = cells.find(column);
    if (cell == cells.end()) {
      s += "<td></td>";
      continue;
    }
    worst = std::max(worst, cell->second.severity);
    s += "<td class=\"c v-" + cell->second.worst + "\" title=\"" + html::escape(op) + " on " +
         html::escape(column) + ": " + cell->second.counts + "\"></td>";
  }
  return "<tr data-op=\"" + html::escape(op) + "\" data-worst=\"" + std::to_string(worst) +
         "\"><th scope=\"row\">" + html::escape(op) + "</th>" + s + "</tr>";
}

std::string matrix_legend(const Source& source) {
  std::string s = "<ul class=\"legend\">";
  source.each("SELECT DISTINCT verdict FROM v_matrix WHERE run_id IN shown ORDER BY severity",
              [&](const Row& r) {
                s += "<li><span class=\"swatch c v-" + r.html(0) + "\"></span> " +
                     html::verdict_words(r.text(0)) + "</li>";
              });
  return s + "<li><span class=\"swatch\"></span> not seen</li></ul>";
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
  if (n == 0) return "<p class=\"empty good\">Every op that has a rule was reached.</p>";
  return "<h3>" + plural(n, "op has a rule and was never reached", "ops have rules and were never reached") +
         "</h3><ul class=\"tags warn\">" + s + "</ul>";
}

}  // namespace

std::string render_matrix(const Source& source, nlohmann::json&) {
  const Matrix m = matrix_of(source);
  if (m.rows.empty()) return "<p class=\"empty\">No op was recorded.</p>";
  const std::vector<std::string> columns = columns_of(m);
  std::string s =
      "<p>Each square is the worst verdict of an op on a placement pattern; hold the pointer over it for the "
      "counts.</p>" +
      matrix_legend(source) +
      "<div class=\"controls\"><label>Find an op <input type=\"search\" id=\"op-filter\" "
      "placeholder=\"aten::\"></label>"
      "<label><input type=\"checkbox\" id=\"op-worst\"> only rows that are not all equal</label></div>"
      "<p class=\"quiet\" id=\"cell-says\" aria-live=\"polite\">" +
      plural(static_cast<int64_t>(m.rows.size()), "op", "ops") + " × " +
      plural(static_cast<int64_t>(m.columns.size()), "placement pattern", "placement patterns") +
      "</p><div class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Heat map\"><table "
      "class=\"matrix\"><thead><tr><th>op</th>";
  for (const std::string& c : columns) s += "<th scope=\"col\"><span>" + html::escape(c) + "</span></th>";
  s += "</tr></thead><tbody>";
  for (const auto& [op, cells] : m.rows) s += matrix_row(op, cells, columns);
  s += "</tbody></table></div>";
  if (columns.size() < m.columns.size()) {
    s += "<p class=\"quiet\">The " + grouped(static_cast<int64_t>(m.columns.size() - columns.size())) +
         " least used patterns are left out here; the view v_matrix has them all.</p>";
  }
  return s;
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
