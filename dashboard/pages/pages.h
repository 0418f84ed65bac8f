// SPDX-License-Identifier: Apache-2.0
// The pages of the dashboard. Each has one question on top, answers it in its headline, and is made of the
// same panels as the report; a page is a function and a line in the table.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "dashboard/pages/case_index.h"
#include "dashboard/pages/query.h"
#include "dashboard/report/html.h"

namespace lockstep::dashboard {

// What a page is made from.
struct View {
  const Source& source;
  const CaseIndex& cases;
  const Query& query;
  nlohmann::json& charts;
  std::string database{};  // its name on this site

  std::vector<int64_t> shown_runs() const;
};

// HTML, but for `question`, which is ours.
struct Page {
  std::string question{};
  std::string headline{};  // the answer
  std::string status{};    // "ok", "warn", "bad": the colour of the top; "": none
  std::string words{};     // a sentence or two below
  std::string body{};
};

struct PageDefinition {
  const char* path;   // after the name of the database; "" is the first one
  const char* title;  // in the browser's list and in the navigation
  bool in_navigation;
  Page (*render)(const View& view);
};
std::span<const PageDefinition> pages();

Page page_overview(const View& view);
Page page_failures(const View& view);
Page page_bucket(const View& view);
Page page_matrix(const View& view);
Page page_cases(const View& view);
Page page_case(const View& view);
Page page_curves(const View& view);
Page page_performance(const View& view);
Page page_series(const View& view);
Page page_coverage(const View& view);
Page page_checks(const View& view);
Page page_judgements(const View& view);
Page page_judgement(const View& view);
Page page_runs(const View& view);
Page page_environment(const View& view);

}  // namespace lockstep::dashboard
