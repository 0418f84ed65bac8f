// SPDX-License-Identifier: Apache-2.0
// The panels of panels.sql, of which the report and the pages of the site are made. Charts get their data as
// JSON and have a table beside them, so that every number is there without a script.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/report/source.h"

namespace lockstep::dashboard {

// "--# NAME TEXT", with the lines that follow.
struct Directive {
  std::string name{}, text{};
  // The first line of the text, and the others.
  std::string head() const { return text.substr(0, text.find('\n')); }
  std::string rest() const { return text.size() > head().size() ? text.substr(head().size() + 1) : ""; }
};
std::vector<Directive> directives(std::string_view text);

struct Panel {
  std::string id{}, title{}, short_title{};
  std::vector<Part> parts{};
};

// All, in the order of the files. The report has those with a short title.
std::span<const Panel> panels();
const Panel& panel(std::string_view id);
// What each connection gets before its first page: views, and templates by the name of the function.
const std::string& page_views();
const std::map<std::string, std::string>& page_functions();

// The parts one after the other; what scripts draw goes into `charts`.
std::string body(const Panel& panel, const Source& source, nlohmann::json& charts, const Texts& texts = {});

// How the runs came out, in words and numbers. `first_of_page`: its headline is that of the page.
std::string render_hero(const Source& source, bool first_of_page);

// The parts that C++ draws.
std::string draw_curves(const Source& source, nlohmann::json& charts, const Texts& texts);
std::string draw_series(const Source& source, nlohmann::json& charts, const Texts& texts);
std::string draw_one_series(const Source& source, nlohmann::json& charts,
                            const Texts& texts);  // of the name ?1
// Of paddings, a chart for each number of rows, a line for each model.
std::string draw_padding(const Source& source, nlohmann::json& charts, const Texts& texts);
std::string draw_trend(const Source& source, nlohmann::json& charts, const Texts& texts);

}  // namespace lockstep::dashboard
