// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/heat_map.h"

#include <algorithm>
#include <utility>

namespace lockstep::dashboard {

using html::escape;
using html::plural;

namespace {

constexpr size_t kMostColumns = 160;

std::string controls() {
  return "<div class=\"controls\"><label>Find an op <input type=\"search\" id=\"op-filter\" "
         "placeholder=\"aten::\"></label><label><input type=\"checkbox\" id=\"op-worst\"> only rows that are "
         "not all equal</label></div>";
}

}  // namespace

void HeatMap::add(const std::string& op, const std::string& column, const std::string& verdict,
                  int64_t severity, int64_t hits) {
  Cell& cell = rows_[op][column];
  cell.counts += (cell.counts.empty() ? "" : ", ") + html::grouped(hits) + " " + html::verdict_words(verdict);
  if (severity >= cell.severity) {
    cell.severity = severity;
    cell.worst = verdict;
  }
  hits_[column] += hits;
  verdicts_[severity] = verdict;
}

// One mesh dimension before two, then by text; of too many the least used are left out.
std::vector<std::string> HeatMap::columns() const {
  std::vector<std::string> names;
  for (const auto& [name, hits] : hits_) names.push_back(name);
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return hits_.at(a) > hits_.at(b); });
  if (names.size() > kMostColumns) names.resize(kMostColumns);
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    const auto commas = [](const std::string& s) { return std::count(s.begin(), s.end(), ','); };
    return std::pair(commas(a), a) < std::pair(commas(b), b);
  });
  return names;
}

std::string HeatMap::legend() const {
  std::string s = "<ul class=\"legend\">";
  for (const auto& [severity, verdict] : verdicts_)
    s += "<li><span class=\"swatch c v-" + escape(verdict) + "\"></span> " + html::verdict_words(verdict) +
         "</li>";
  return s + "<li><span class=\"swatch\"></span> not seen</li></ul>";
}

std::string HeatMap::html(const Source& source, const std::string& what, const std::string& parameter) const {
  const std::vector<std::string> names = columns();
  std::string s = legend() + controls() + "<p class=\"quiet\" id=\"cell-says\" aria-live=\"polite\">" +
                  plural(static_cast<int64_t>(rows_.size()), "op", "ops") + " × " +
                  plural(static_cast<int64_t>(hits_.size()), what, what + "s") +
                  ". Hold the pointer over a square, or walk with the arrow keys, for its counts.</p><div "
                  "class=\"scroll tall\" tabindex=\"0\" role=\"region\" aria-label=\"Heat map\"><table "
                  "class=\"matrix\" data-parameter=\"" +
                  parameter + "\"" +
                  (source.has_site() ? " data-cases=\"" + source.href("cases") + "\"" : "") +
                  "><caption class=\"hidden\">Worst verdict by op and " + what +
                  "</caption><thead><tr><th scope=\"col\">op</th>";
  for (const std::string& c : names) s += "<th scope=\"col\"><span>" + escape(c) + "</span></th>";
  s += "</tr></thead><tbody>";
  for (const auto& [op, cells] : rows_) {
    int64_t worst = 0;
    std::string row;
    for (const std::string& column : names) {
      const auto cell = cells.find(column);
      if (cell == cells.end()) {
        row += "<td></td>";
        continue;
      }
      worst = std::max(worst, cell->second.severity);
      row +=
          "<td class=\"c v-" + escape(cell->second.worst) + "\" title=\"" + cell->second.counts + "\"></td>";
    }
    s += "<tr data-worst=\"" + std::to_string(worst) + "\"><th scope=\"row\">" +
         source.link(html::cut(op, 200), "cases", {{"op", op}}) + "</th>" + row + "</tr>";
  }
  s += "</tbody></table></div>";
  if (names.size() == hits_.size()) return s;
  return s + "<p class=\"quiet\">The least used " + what + "s are left out here: " +
         plural(static_cast<int64_t>(hits_.size() - names.size()), "column", "columns") + ".</p>";
}

}  // namespace lockstep::dashboard
