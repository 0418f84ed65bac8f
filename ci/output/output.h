// SPDX-License-Identifier: Apache-2.0
// The outputs of a store, one function for each form. All are made of the same ReportModel, so they agree on
// every count.
//
//   const auto model = output::read_report_model(store);
//   dashboard::write_whole("junit.xml", output::render_junit(model));
#pragma once
#include <functional>
#include <string>
#include <string_view>

#include "ci/output/report_model.h"
#include "dashboard/store/store.h"

namespace lockstep::output {

inline constexpr std::string_view kSchema = "lockstep-export/1";
inline constexpr size_t kMostResults = 25'000;     // of SARIF that code scanning takes
inline constexpr int kMostAnnotations = 10;        // that GitHub shows of a step
inline constexpr size_t kMostSummary = 1'000'000;  // bytes; GitHub refuses more than 1 MiB

// The version of this program: "0.1.0".
std::string_view tool_version();

// For a terminal: the headline, the counts, the worst buckets with their replay lines.
std::string render_text(const ReportModel& model);
// {"schema", "tool_version", "exit_code", "exit_codes", "counts"}: what render_text says, for machines.
std::string render_counts_json(const ReportModel& model);
// The whole ReportModel: README.md documents every key.
std::string render_json(const ReportModel& model);
// JUnit XML in the form that Jenkins and Surefire read.
std::string render_junit(const ReportModel& model);
// SARIF 2.1.0. A bucket is a result, its signature the fingerprint.
std::string render_sarif(const ReportModel& model);
// Workflow commands for the log of a GitHub step: at most ten annotations.
std::string render_annotations(const ReportModel& model);
// Markdown for GITHUB_STEP_SUMMARY: at most kMostSummary bytes, and says what it left out.
std::string render_summary(const ReportModel& model);

// Rows of any view, one at a time, in constant memory. @throws Error, naming the views there are, if the
// store has no such view; StoreError.
using Sink = std::function<void(std::string_view)>;
// One object: "schema", "tool_version", "view", "columns", "rows".
void write_view_json(const dashboard::Store& store, const std::string& view, const Sink& sink);
// A line for each row, after one line with "schema", "tool_version", "view", "columns".
void write_view_jsonl(const dashboard::Store& store, const std::string& view, const Sink& sink);
// RFC 4180. NULL is an empty field, an empty text "". A text that a spreadsheet would take for a formula gets
// an apostrophe in front.
void write_view_csv(const dashboard::Store& store, const std::string& view, const Sink& sink);

}  // namespace lockstep::output
