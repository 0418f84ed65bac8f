// SPDX-License-Identifier: Apache-2.0
// The JSON of a whole store.
#include "ci/output/output.h"
#include "ci/output/text.h"
#include "ci/output/view.h"

namespace lockstep::output {

std::string_view tool_version() {
  return LOCKSTEP_VERSION;
}

nlohmann::ordered_json json_of(const Counts& counts) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object(), kinds;
  for (const char* kind : {"verdict", "bucket", "finding", "series"}) kinds[kind] = all;
  for (const auto& [key, n] : counts) {
    const auto dot = key.find('.');
    (dot == std::string::npos ? all[key] : kinds[key.substr(0, dot)][utf8(key.substr(dot + 1))]) = n;
  }
  all["verdicts"] = kinds["verdict"];
  all["states"] = kinds["bucket"];
  all["findings"] = kinds["finding"];
  all["series"] = kinds["series"];
  return all;
}

std::string dumped(const nlohmann::ordered_json& document) {
  return document.dump(2) + "\n";
}

namespace {

// What begins each JSON output: schema, tool_version, exit_code, exit_codes.
nlohmann::ordered_json head_of(const ReportModel& p) {
  const auto codes = exit_codes(p);
  return {{"schema", kSchema},
          {"tool_version", tool_version()},
          {"exit_code", codes.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(codes[0])},
          {"exit_codes", codes},
          {"headline", headline(p).text},
          {"counts", json_of(p.counts)}};
}

}  // namespace

std::string render_counts_json(const ReportModel& p) {
  return dumped(head_of(p));
}

std::string render_json(const ReportModel& p) {
  auto document = head_of(p);
  const auto put = [&](const char* key, const Table& table) {
    auto& rows = document[key] = nlohmann::ordered_json::array();
    for (const Row& row : table) rows.push_back(json_of(row));
  };
  put("runs", p.runs);
  put("verdicts", p.verdicts);
  put("failures", p.failures);
  put("buckets", p.buckets);
  document["judgement"] = p.judgement.empty() ? nlohmann::ordered_json() : json_of(p.judgement[0]);
  put("findings", p.findings);
  put("series", p.series);
  put("plan", p.plan);
  put("gates", p.gates);
  put("faults", p.faults);
  put("coverage_gaps", p.gap_kinds);
  return dumped(document);
}

}  // namespace lockstep::output
