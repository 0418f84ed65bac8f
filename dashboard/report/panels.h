// SPDX-License-Identifier: Apache-2.0
// The panels of the report: each answers one question from the views, as HTML. Charts get their data as JSON
// and have a table beside them, so that every number is on the page without a script.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "dashboard/report/html.h"

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

// A short name for a text of any length, for links: a hash of it, in hex.
std::string content_id(std::string_view text);

// The first `most` tensors of a case that differ; "" if none does.
std::string tensor_diffs(const Source& source, int64_t case_id, int64_t most);

// The state of a bucket as a chip whose tooltip says what the state means.
std::string state_chip(const std::string& state);
// The buckets in this state ("": all), the ones that fail first; "" if there is none.
std::string bucket_table(const Source& source, const std::string& state);
// What one decision of the gate says. Of the newest the number; "" if there is none.
std::string judgement_body(const Source& source, const std::string& judgement);
std::string newest_judgement(const Source& source);

// What the gate said of series: the rows of v_series_verdicts that `rest` (WHERE … ORDER BY …) chooses for
// its one parameter. The first column is the caller's, made of the columns below; the others are the same
// everywhere.
inline constexpr int kSeriesColumn = 0, kJudgementColumn = 1, kTimeColumn = 2;
html::Table series_verdict_table(const Source& source, const std::string& caption, const char* first,
                                 const std::string& rest, const std::string& parameter,
                                 const std::function<std::string(const Row&)>& first_cell);

// One measured series, with its chart; "" if there is no such series.
std::string series_body(const Source& source, const std::string& name, nlohmann::json& charts);
// Where that series changed its level, on the machine that measured it last.
std::string series_levels(const Source& source, const std::string& series);

// Op by placement, of meshes with this many dimensions ("": all).
std::string matrix_body(const Source& source, const std::string& rank);

// How the runs came out, in words and numbers. `first_of_page`: its headline is that of the page.
std::string render_hero(const Source& source, bool first_of_page);

std::string render_verdicts(const Source& source, nlohmann::json& charts);
std::string render_failures(const Source& source, nlohmann::json& charts);
std::string render_matrix(const Source& source, nlohmann::json& charts);
std::string render_curves(const Source& source, nlohmann::json& charts);
// Part of the curves: divergence of logged digests, environments of imported runs. "" if there is none.
std::string render_compared(const Source& source);
// Part of the curves: the random policies side by side, of the groups that charts["curves"] holds. "" if no
// run trained with a policy for one kind of draw alone.
std::string policies_figure(nlohmann::json& charts);
std::string render_throughput(const Source& source, nlohmann::json& charts);
std::string render_coverage(const Source& source, nlohmann::json& charts);
std::string render_goldens(const Source& source, nlohmann::json& charts);
std::string render_faults(const Source& source, nlohmann::json& charts);
std::string render_exceptions(const Source& source, nlohmann::json& charts);
std::string render_refusals(const Source& source, nlohmann::json& charts);
std::string render_environment(const Source& source, nlohmann::json& charts);
std::string render_buckets(const Source& source, nlohmann::json& charts);
std::string render_judgement(const Source& source, nlohmann::json& charts);
std::string render_drift(const Source& source, nlohmann::json& charts);
std::string render_series(const Source& source, nlohmann::json& charts);
// series_levels() of every series.
std::string render_levels(const Source& source, nlohmann::json& charts);
std::string render_divergence(const Source& source, nlohmann::json& charts);

}  // namespace lockstep::dashboard
