// SPDX-License-Identifier: Apache-2.0
// The panels of the report: each answers one question from the views, as HTML. Charts get their data as JSON
// and have a table beside them, so that every number is on the page without a script.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "dashboard/html.h"

namespace lockstep::dashboard {

struct Panel {
  const char* id;
  const char* title;        // in the page
  const char* short_title;  // in the navigation
  // Writes the body; what it puts into `charts` is handed to page.js.
  std::string (*render)(const Source& source, nlohmann::json& charts);
};

// In the order of the page.
std::span<const Panel> panels();

std::string render_hero(const Source& source);

std::string render_verdicts(const Source& source, nlohmann::json& charts);
std::string render_failures(const Source& source, nlohmann::json& charts);
std::string render_matrix(const Source& source, nlohmann::json& charts);
std::string render_curves(const Source& source, nlohmann::json& charts);
std::string render_throughput(const Source& source, nlohmann::json& charts);
std::string render_coverage(const Source& source, nlohmann::json& charts);
std::string render_goldens(const Source& source, nlohmann::json& charts);
std::string render_faults(const Source& source, nlohmann::json& charts);
std::string render_exceptions(const Source& source, nlohmann::json& charts);
std::string render_environment(const Source& source, nlohmann::json& charts);

}  // namespace lockstep::dashboard
