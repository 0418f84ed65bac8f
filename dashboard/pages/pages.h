// SPDX-License-Identifier: Apache-2.0
// The pages of pages.sql. Each has one question on top, answers it in its headline, and is made of the same
// panels as the report.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dashboard/pages/case_index.h"
#include "dashboard/pages/query.h"
#include "dashboard/report/panels.h"

namespace lockstep::dashboard {

// What a page is made from.
struct View {
  const Source& source;
  const CaseIndex& cases;
  const Query& query;
  nlohmann::json& charts;

  std::vector<int64_t> shown_runs() const;
};

struct PageDefinition {
  std::string path{};   // after the name of the database; "" is the first one
  std::string title{};  // in the browser's list and in the navigation
  bool in_navigation = true;
  std::string question{}, answer{}, missing{};
  std::vector<std::string> parameters{};
  std::vector<std::pair<std::string, std::string>> sections{};  // panel, title ("": its own)
};
std::span<const PageDefinition> pages();

// The headline and all below. @throws NotFound if the page's answer has no row.
std::string main_of(const PageDefinition& page, const View& view);
// The question and the answer: a status ("ok", "warn", "bad"; "": no colour), a space and the headline;
// markup below.
std::string answered(const std::string& question, const std::string& said, const std::string& words = "");

// What no query says: the matrix and the cases behind it.
std::string matrix_body(const View& view);
std::string cases_main(const std::string& question, const View& view);

}  // namespace lockstep::dashboard
