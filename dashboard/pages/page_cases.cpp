// SPDX-License-Identifier: Apache-2.0
// The matrix, and the cases behind it.
#include <algorithm>

#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/html.h"

namespace lockstep::dashboard {

using html::escape;
using html::grouped;
using html::plural;

namespace {

constexpr int64_t kCasesOnPage = 50;
constexpr size_t kMostChoices = 200;
constexpr size_t kFacetCount = CaseIndex::kFacets.size();

std::string tab(const View& view, const std::string& words, const Parameters& parameters, bool here) {
  return "<a href=\"" + escape(view.source.href("matrix", parameters)) + "\"" +
         (here ? " aria-current=\"true\"" : "") + ">" + words + "</a>";
}

std::string ops_by_mesh(const View& view) {
  nlohmann::json squares = nlohmann::json::array();
  for (const auto& [op, meshes] : view.cases.by_mesh(view.shown_runs()))
    for (const auto& [mesh, verdicts] : meshes)
      for (const auto& [verdict, n] : verdicts) squares.push_back({op, mesh, verdict, n});
  const std::string rows = squares.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return body(panel("matrix-by-mesh"), view.source, view.charts, {rows});
}

CaseIndex::Filter filter_of(const View& view) {
  CaseIndex::Filter filter{.runs = view.shown_runs(), .op = view.query.text("op")};
  for (size_t f = 0; f < kFacetCount; ++f) filter.value[f] = view.query.text(CaseIndex::kFacets[f]);
  return filter;
}

Parameters parameters_of(const CaseIndex::Filter& filter) {
  Parameters list = {{"op", filter.op}};
  for (size_t f = 0; f < kFacetCount; ++f) list.emplace_back(CaseIndex::kFacets[f], filter.value[f]);
  return list;
}

std::string choice(const std::string& name, const std::string& chosen,
                   const std::map<std::string_view, int64_t>& counts) {
  std::vector<std::pair<std::string_view, int64_t>> values(counts.begin(), counts.end());
  std::stable_sort(values.begin(), values.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (values.size() > kMostChoices) values.resize(kMostChoices);
  std::string s = "<label>" + name + "<select name=\"" + name + "\"><option value=\"\">any</option>";
  bool known = chosen.empty();
  for (const auto& [value, n] : values) {
    if (value.empty()) continue;
    known = known || value == chosen;
    s += "<option value=\"" + escape(value) + "\"" + (value == chosen ? " selected" : "") + ">" +
         html::cut(value, 60) + " (" + grouped(n) + ")</option>";
  }
  if (!known)
    s += "<option selected value=\"" + escape(chosen) + "\">" + html::cut(chosen, 60) + " (0)</option>";
  return s + "</select></label>";
}

std::string form(const View& view, const CaseIndex::Filter& filter, const CaseIndex::Found& found) {
  std::string s = "<form class=\"filters\" method=\"get\" action=\"" + escape(view.source.href("cases")) +
                  "\" aria-label=\"Filter the cases\"><label>op<input name=\"op\" list=\"ops\" value=\"" +
                  escape(filter.op) + "\" placeholder=\"any\"></label><datalist id=\"ops\">";
  for (const std::string_view op : view.cases.ops()) s += "<option value=\"" + escape(op) + "\">";
  s += "</datalist>";
  for (size_t f = 0; f < kFacetCount; ++f)
    s += choice(CaseIndex::kFacets[f], filter.value[f], found.counts[f]);
  if (const std::string run = view.query.text("run"); !run.empty())
    s += "<input type=\"hidden\" name=\"run\" value=\"" + escape(run) + "\">";
  return s + "<button type=\"submit\">Show</button></form>";
}

std::string pager(const View& view, const CaseIndex::Filter& filter, int64_t page, int64_t pages) {
  const auto link = [&](const std::string& words, int64_t to) {
    Parameters list = parameters_of(filter);
    list.emplace_back("page", std::to_string(to));
    return view.source.link(words, "cases", list);
  };
  std::string s = "<nav class=\"pager\" aria-label=\"Pages of cases\">";
  if (page > 1) s += link("First", 1) + link("Previous", page - 1);
  s += "<span>Page " + grouped(page) + " of " + grouped(pages) + "</span>";
  if (page < pages) s += link("Next", page + 1) + link("Last", pages);
  return s + "</nav>";
}

}  // namespace

std::string matrix_body(const View& view) {
  const bool by_mesh = view.query.text("across") == "mesh";
  const std::string rank = view.query.text("rank");
  std::string tabs = tab(view, "By placement, all meshes", {}, !by_mesh && rank.empty());
  view.source.each("SELECT DISTINCT mesh_rank FROM v_matrix WHERE run_id IN shown ORDER BY 1",
                   [&](const Row& r) {
                     tabs += tab(view, r.cell(0) + "-dimensional meshes", {{"rank", r.text(0)}},
                                 !by_mesh && rank == r.text(0));
                   });
  tabs += tab(view, "By mesh", {{"across", "mesh"}}, by_mesh);
  return section("matrix", by_mesh ? "Operators by mesh" : "Operators by placement",
                 html::element("nav.tabs aria-label=\"Columns\"", tabs) +
                     (by_mesh ? ops_by_mesh(view) : body(panel("matrix"), view.source, view.charts, {rank})));
}

std::string cases_main(const std::string& question, const View& view) {
  const CaseIndex::Filter filter = filter_of(view);
  const int64_t page = view.query.number("page", 1, 1'000'000'000).value_or(1);
  const CaseIndex::Found found = view.cases.find(filter, (page - 1) * kCasesOnPage, kCasesOnPage);
  const int64_t pages = std::max<int64_t>(1, (found.cases + kCasesOnPage - 1) / kCasesOnPage);
  const bool op_and_placement = !filter.op.empty() && !filter.value[2].empty();
  const std::string none =
      op_and_placement
          ? "No case is filed so. A program is filed under the placement of its inputs, while the matrix "
            "counts each op where it ran: choose the op alone."
          : "No case of the runs shown here is like that.";
  const std::string ids = nlohmann::json(found.ids).dump();
  return answered(question, " " + plural(found.cases, "case", "cases")) +
         section("cases", "Cases",
                 form(view, filter, found) + (found.cases == 0
                                                  ? html::notice(none)
                                                  : body(panel("cases-of"), view.source, view.charts, {ids}) +
                                                        pager(view, filter, page, pages)));
}

}  // namespace lockstep::dashboard
