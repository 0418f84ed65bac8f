// SPDX-License-Identifier: Apache-2.0
#include "dashboard/pages/pages.h"

#include <algorithm>
#include <sstream>

#include "dashboard/report/assets.h"
#include "dashboard/report/frame.h"
#include "dashboard/report/html.h"

namespace lockstep::dashboard {

namespace {

// "PATH: TITLE", "PATH: (TITLE)"
PageDefinition page_of(const std::string& text) {
  const size_t colon = text.find(':');
  PageDefinition page{.path = text.substr(0, colon), .title = text.substr(colon + 2)};
  if (page.path == "-") page.path = "";
  page.in_navigation = page.title[0] != '(';
  if (!page.in_navigation) page.title = page.title.substr(1, page.title.size() - 2);
  return page;
}

std::vector<PageDefinition> described() {
  std::vector<PageDefinition> all;
  for (const Directive& d : directives(kPagesSql)) {
    if (d.name == "page") all.push_back(page_of(d.text));
    if (all.empty()) continue;
    PageDefinition& page = all.back();
    if (d.name == "question") page.question = d.text;
    if (d.name == "answer") page.answer = d.text;
    if (d.name == "missing") page.missing = d.text;
    std::istringstream words(d.text);
    for (std::string word; d.name == "parameters" && words >> word;) page.parameters.push_back(word);
    const size_t colon = d.text.find(':');
    if (d.name == "section")
      page.sections.emplace_back(d.text.substr(0, colon), d.text.substr(std::min(colon + 2, d.text.size())));
  }
  return all;
}

std::string failures_in(const std::string& state, const View& view) {
  return section("buckets", view.source.fill("Buckets in the state {SELECT state(?1)}", {state}),
                 body(panel("buckets-in-state"), view.source, view.charts, {state}) +
                     html::element("p", view.source.link("All states", "failures")));
}

}  // namespace

std::span<const PageDefinition> pages() {
  static const std::vector<PageDefinition> all = described();
  return all;
}

std::string answered(const std::string& question, const std::string& said, const std::string& words) {
  const size_t space = said.find(' ');
  const std::string mark = space == 0 ? "" : "<span class=\"mark\" aria-hidden=\"true\"></span>";
  return "<section class=\"hero plain " + said.substr(0, space) + "\" id=\"top\">" +
         html::element("p.eyebrow", question) +
         html::element("h1", mark + html::element("span", html::escape(said.substr(space + 1)))) +
         (words.empty() ? "" : html::element("p.words", words)) + "</section>\n";
}

std::string main_of(const PageDefinition& page, const View& view) {
  if (page.path == "cases") return cases_main(page.question, view);
  Texts texts;
  for (const std::string& name : page.parameters) texts.push_back(view.query.text(name));
  std::string top;
  view.source.each(
      page.answer,
      [&](const Row& r) {
        if (top.empty()) top = answered(page.question, r.text(0), r.columns() > 1 ? r.cell(1) : "");
      },
      texts);
  if (top.empty()) throw NotFound(page.missing);
  if (page.path == "matrix") return top + matrix_body(view);
  if (page.path == "failures" && !texts[0].empty()) return top + failures_in(texts[0], view);
  if (page.path.empty() && view.source.integer("SELECT count(*) FROM shown") == 0) return top;
  for (const auto& [id, title] : page.sections) {
    const Panel& p = panel(id);
    top += id == "hero"
               ? render_hero(view.source, false)
               : section(id, title.empty() ? p.title : title, body(p, view.source, view.charts, texts));
  }
  return top;
}

std::vector<int64_t> View::shown_runs() const {
  std::vector<int64_t> runs;
  source.each("SELECT id FROM shown ORDER BY id", [&](const Row& r) { runs.push_back(r.integer(0)); });
  return runs;
}

}  // namespace lockstep::dashboard
