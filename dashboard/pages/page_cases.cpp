// SPDX-License-Identifier: Apache-2.0
// The matrix, the cases behind it, and one case.
#include <algorithm>

#include "dashboard/pages/pages.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/heat_map.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

using html::escape;
using html::grouped;
using html::plural;

namespace {

constexpr int64_t kCasesOnPage = 50;
constexpr size_t kMostChoices = 200;
constexpr size_t kFacetCount = CaseIndex::kFacets.size();

std::string tab(const View& view, const std::string& words, const Parameters& parameters, bool here) {
  return "<a href=\"" + view.source.href("matrix", parameters) + "\"" +
         (here ? " aria-current=\"true\"" : "") + ">" + words + "</a>";
}

std::string ops_by_mesh(const View& view) {
  std::map<std::string, int64_t> severity;
  view.source.each("SELECT name, severity FROM verdict",
                   [&](const Row& r) { severity[r.text(0)] = r.integer(1); });
  HeatMap map;
  for (const auto& [op, meshes] : view.cases.by_mesh(view.shown_runs())) {
    for (const auto& [mesh, verdicts] : meshes) {
      std::vector<std::pair<std::string, int64_t>> sorted(verdicts.begin(), verdicts.end());
      std::sort(sorted.begin(), sorted.end(),
                [&](const auto& a, const auto& b) { return severity[a.first] < severity[b.first]; });
      for (const auto& [verdict, n] : sorted)
        map.add(std::string(op), std::string(mesh), verdict, severity[verdict], n);
    }
  }
  if (map.empty()) return html::notice("No case was recorded.");
  return "<p>Each square is the worst verdict of the cases on a mesh that contain the op; another op of the "
         "case may be to blame.</p>" +
         map.html(view.source, "mesh", "mesh");
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
  std::string s = "<form class=\"filters\" method=\"get\" action=\"" + view.source.href("cases") +
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

std::string case_table(const Source& source, const std::vector<int64_t>& ids) {
  html::Table table(
      "Cases",
      {{"Case", "key"}, {"Verdict"}, {"Suite"}, {"Op"}, {"Placement"}, {"Mesh"}, {"Dtype"}, {"Took", "num"}});
  for (const int64_t id : ids) {
    source.each(
        "SELECT key, token, verdict, suite, coalesce(nullif(op, ''), ops), placement, mesh, dtype, seconds "
        "FROM "
        "v_cases WHERE case_id = " +
            std::to_string(id),
        [&](const Row& r) {
          table.row({source.link("<code class=\"wrap\">" + html::cut(r.text(1), 120) + "</code>", "case",
                                 {{"key", r.text(0)}}),
                     html::verdict_chip(r.text(2)), html::cut(r.text(3), 60),
                     "<code class=\"wrap\">" + html::cut(r.text(4), 120) + "</code>",
                     "<code>" + html::cut(r.text(5), 40) + "</code>", html::cut(r.text(6), 40),
                     html::cut(r.text(7), 20), html::duration(r.number(8))});
        });
  }
  return table.html();
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

// Each outcome of the case with what differed in it.
std::string outcome(const Source& source, const Row& r, size_t index) {
  std::string s = "<p>" + html::verdict_chip(r.text(2)) + " in run " +
                  source.link(html::cut(r.text(1), 60), "", {{"run", r.text(0)}}) + "</p>";
  if (!r.text(14).empty()) s += "<p>" + html::cut(r.text(14), 4000) + "</p>";
  s += "<dl class=\"facts\">";
  constexpr const char* kNames[] = {"Suite", "Law",      "Variant", "Op",  "Placement",
                                    "Mesh",  "Evenness", "Dtype",   "Made"};
  for (int i = 0; i < 9; ++i) {
    const std::string value = r.text(3 + i);
    if (!value.empty())
      s += std::string("<div><dt>") + kNames[i] + "</dt><dd>" + html::cut(value, 400) + "</dd></div>";
  }
  s += "<div><dt>Took</dt><dd>" + html::duration(r.number(12)) + "</dd></div><div><dt>Moved</dt><dd>" +
       html::bytes(r.number(13)) + "</dd></div></dl>";
  const std::string diffs = tensor_diffs(source, r.integer(16), 100);
  s += diffs.empty() ? html::notice(r.text(2) == "equal" ? "Every bit of every tensor on every rank is equal."
                                                         : "No tensor was recorded as different.")
                     : diffs;
  if (const std::string bucket = r.text(15); !bucket.empty())
    s += "<p>Bucket " +
         source.link("<code class=\"wrap\">" + html::cut(bucket, 200) + "</code>", "bucket",
                     {{"id", content_id(bucket)}}) +
         "</p>";
  return section("outcome-" + std::to_string(index), "Outcome", s);
}

}  // namespace

Page page_matrix(const View& view) {
  const std::string across = view.query.one_of("across", {"placement", "mesh"});
  const auto rank = view.query.number("rank", 1, 9);
  const std::string dims = rank ? std::to_string(*rank) : "";
  std::string tabs = "<nav class=\"tabs\" aria-label=\"Columns\">" +
                     tab(view, "By placement, all meshes", {}, across == "placement" && !rank);
  view.source.each("SELECT DISTINCT mesh_rank FROM v_matrix WHERE run_id IN shown ORDER BY 1",
                   [&](const Row& r) {
                     tabs += tab(view, r.html(0) + "-dimensional meshes", {{"rank", r.text(0)}},
                                 across == "placement" && dims == r.text(0));
                   });
  tabs += tab(view, "By mesh", {{"across", "mesh"}}, across == "mesh") + "</nav>";
  int64_t bad = 0;
  view.source.each(
      "SELECT count(DISTINCT op) FROM v_matrix WHERE run_id IN shown AND verdict IN (SELECT name FROM "
      "verdict WHERE failure)",
      [&](const Row& r) { bad = r.integer(0); });
  return {.question = "Which operator fails on which placement and which mesh?",
          .headline = bad == 0 ? "No operator fails anywhere."
                               : plural(bad, "operator fails somewhere.", "operators fail somewhere."),
          .status = bad == 0 ? "ok" : "bad",
          .body = section("matrix", across == "mesh" ? "Operators by mesh" : "Operators by placement",
                          tabs + (across == "mesh" ? ops_by_mesh(view) : matrix_body(view.source, dims)))};
}

Page page_cases(const View& view) {
  const CaseIndex::Filter filter = filter_of(view);
  const int64_t page = view.query.number("page", 1, 1'000'000'000).value_or(1);
  const CaseIndex::Found found = view.cases.find(filter, (page - 1) * kCasesOnPage, kCasesOnPage);
  const int64_t pages = std::max<int64_t>(1, (found.cases + kCasesOnPage - 1) / kCasesOnPage);
  std::string s = form(view, filter, found);
  if (found.cases == 0)
    s +=
        html::notice(filter.op.empty() || filter.value[2].empty()
                         ? "No case of the runs shown here is like that."
                         : "No case is filed so. A program is filed under the placement of its inputs, while "
                           "the matrix counts each op where it ran: choose the op alone.");
  else
    s += case_table(view.source, found.ids) + pager(view, filter, page, pages);
  return {.question = "Which cases ran, and what did each say?",
          .headline = plural(found.cases, "case", "cases"),
          .body = section("cases", "Cases", s)};
}

Page page_case(const View& view) {
  const std::string key = view.query.text("key");
  const bool hex = key.size() == 32 && key.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (!hex) throw BadQuery("\"key\" is the key of a case: 32 hexadecimal digits");
  std::string blob, token, body;
  for (size_t i = 0; i < key.size(); i += 2)
    blob += static_cast<char>(std::stoi(key.substr(i, 2), nullptr, 16));
  size_t outcomes = 0;
  view.source.each(
      "SELECT run_id, run, verdict, suite, law, variant, op, placement, mesh, evenness, dtype, how, seconds, "
      "bytes_moved, explanation, bucket, case_id, token FROM v_cases WHERE case_id IN (SELECT id FROM cases "
      "WHERE key = CAST(? AS BLOB)) ORDER BY severity DESC, run_id",
      [&](const Row& r) {
        token = r.text(17);
        body += outcome(view.source, r, outcomes++);
      },
      {blob});
  if (outcomes == 0) throw NotFound("No case of this store has this key.");
  std::string quoted;
  for (const char c : token) c == '\'' ? quoted += "'\\''" : quoted += c;
  const std::string repeat = html::code_block("replay", "Replay", "lockstep replay '" + quoted + "'");
  return {.question = "What did this case say, and how do I repeat it?",
          .headline = plural(static_cast<int64_t>(outcomes), "outcome", "outcomes"),
          .status = "",
          .words = "",
          .body = section("repeat", "How to repeat it", repeat) + body};
}

}  // namespace lockstep::dashboard
