// SPDX-License-Identifier: Apache-2.0
// The counts as one list, so that every output names and shows the same. Private to this folder.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ci/output/report_model.h"

namespace lockstep::output {

// "cases", "verdict.equal", "bucket.new", "finding.block", "series.slower", ...; a key for each count.
std::vector<std::pair<std::string, int64_t>> listed(const Counts& counts);

// The same with the parts of one kind in an object of their own: "verdicts": {"equal": 12}.
nlohmann::ordered_json json_of(const Counts& counts);

// What begins each JSON output: schema, tool_version, exit_code, exit_codes.
nlohmann::ordered_json json_head(const ReportModel& model);

// Strict UTF-8 text of it; texts were made valid before.
std::string dumped(const nlohmann::ordered_json& document);

}  // namespace lockstep::output
