// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/panels.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "dashboard/report/assets.h"
#include "dashboard/report/html.h"

namespace lockstep::dashboard {

namespace {

using Draw = std::string (*)(const Source&, nlohmann::json&, const Texts&);
constexpr std::pair<std::string_view, Draw> kDrawn[] = {{"curves", draw_curves},
                                                        {"series", draw_series},
                                                        {"one-series", draw_one_series},
                                                        {"padding", draw_padding},
                                                        {"trend", draw_trend}};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// "ID: TITLE (SHORT)"
Panel panel_of(const std::string& text) {
  const size_t colon = text.find(':'), open = text.find(" (", colon);
  Panel made{.id = text.substr(0, colon), .title = text.substr(std::min(colon + 2, text.size()))};
  if (open == std::string::npos) return made;
  made.title = text.substr(colon + 2, open - colon - 2);
  made.short_title = text.substr(open + 2, text.size() - open - 3);
  return made;
}

// @returns false unless the directive begins a part.
bool begins_part(const Directive& d, std::vector<Part>& parts) {
  if (d.name == "text") parts.push_back({.before = one_line(d.text)});
  if (d.name == "draw") parts.push_back({.draw = d.text});
  if (d.name == "table") parts.push_back({.caption = d.head(), .query = d.rest()});
  if (d.name == "list") {
    const std::string head = d.head(), list = head.substr(0, head.find(' '));
    parts.push_back(
        {.query = d.rest(), .item = head.substr(head.find(' ') + 1), .list = list == "-" ? "" : list});
  }
  return d.name == "text" || d.name == "draw" || d.name == "table" || d.name == "list";
}

void complete(Part& part, const Directive& d) {
  const std::string text = one_line(d.text);
  if (d.name == "none" || d.name == "good") part.none = text, part.none_kind = d.name == "good" ? "good" : "";
  if (d.name == "before") part.before = text;
  if (d.name == "after") part.after = text;
  if (d.name == "classes") part.classes = text;
}

struct Described {
  std::vector<Panel> panels;
  std::string views;
  std::map<std::string, std::string> functions;
};

Described described() {
  Described all;
  for (const std::string_view file : {kTemplatesSql, kPanelsSql, kPagesSql})
    for (const Directive& d : directives(file)) {
      if (d.name == "view") all.views += d.text + "\n";
      if (d.name == "function") all.functions[d.head().substr(0, d.head().find('('))] = one_line(d.rest());
      if (d.name == "panel") all.panels.push_back(panel_of(d.text));
      if (!all.panels.empty() && !begins_part(d, all.panels.back().parts) && !all.panels.back().parts.empty())
        complete(all.panels.back().parts.back(), d);
    }
  return all;
}

const Described& known() {
  static const Described all = described();
  return all;
}

}  // namespace

std::vector<Directive> directives(std::string_view text) {
  std::vector<Directive> found;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("--# ")) {
      const size_t space = std::min(line.find(' ', 4), line.size());
      found.push_back({std::string(line.substr(4, space - 4)),
                       std::string(line.substr(std::min(space + 1, line.size())))});
    } else if (!found.empty() && !line.empty() && !line.starts_with("-- ")) {
      std::string& body = found.back().text;
      body.append(body.empty() ? "" : "\n").append(line);
    }
  }
  return found;
}

std::span<const Panel> panels() {
  return known().panels;
}

const Panel& panel(std::string_view id) {
  for (const Panel& p : panels())
    if (p.id == id) return p;
  throw std::logic_error("[dashboard] there is no panel " + std::string(id));
}

const std::string& page_views() {
  return known().views;
}

const std::map<std::string, std::string>& page_functions() {
  return known().functions;
}

std::string body(const Panel& panel, const Source& source, nlohmann::json& charts, const Texts& texts) {
  std::string all;
  for (const Part& part : panel.parts) {
    const auto* drawn =
        std::find_if(std::begin(kDrawn), std::end(kDrawn), [&](auto& d) { return d.first == part.draw; });
    all += drawn == std::end(kDrawn) ? source.rows(part, texts) : drawn->second(source, charts, texts);
  }
  return all;
}

std::string render_hero(const Source& source, bool first_of_page) {
  const std::vector<Part>& parts = panel("hero").parts;
  std::string all;
  source.each(parts[0].query, [&](const Row& r) {
    const std::string said = r.text(0);
    const size_t space = said.find(' ');
    all = html::element("p.eyebrow", source.rows(parts[1])) +
          html::element(first_of_page ? "h1.said" : "h2.said",
                        "<span class=\"mark\" aria-hidden=\"true\"></span>" +
                            html::element("span", html::escape(said.substr(space + 1)))) +
          html::element("p.words", r.cell(1)) + source.rows(parts[2]) + html::element("div.tiles", r.cell(2));
    all = html::element("section.hero." + said.substr(0, space) + (first_of_page ? " id=\"top\"" : ""), all);
  });
  return all;
}

}  // namespace lockstep::dashboard
