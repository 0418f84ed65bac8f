// SPDX-License-Identifier: Apache-2.0
// The JSON of a whole store, and the list of counts that all outputs share.
#include "ci/output/counts.h"
#include "ci/output/output.h"
#include "ci/output/text.h"
#include "ci/output/view.h"

namespace lockstep::output {
namespace {

nlohmann::ordered_json json_of(const std::map<std::string, int64_t>& counts) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, n] : counts) object[utf8(name)] = n;
  return object;
}

// Each bucket that fails now with its life: the columns of v_failures, then those of v_buckets that it lacks.
nlohmann::ordered_json json_of_live(const ReportModel& p) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Live& live : live_buckets(p)) {
    auto row = output::json_of(p.failures.columns, p.failures.rows[live.failure]);
    const auto life = output::json_of(p.buckets.columns, p.buckets.rows[live.bucket]);
    for (const auto& [key, value] : life.items())
      if (!row.contains(key)) row[key] = value;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

std::string_view tool_version() {
  return LOCKSTEP_VERSION;
}

std::vector<std::pair<std::string, int64_t>> listed(const Counts& c) {
  std::vector<std::pair<std::string, int64_t>> all = {{"runs", c.runs},
                                                      {"unfinished", c.unfinished},
                                                      {"cases", c.cases},
                                                      {"failures", c.failures},
                                                      {"buckets", c.buckets},
                                                      {"muted", c.muted},
                                                      {"self_checks", c.self_checks},
                                                      {"missed_self_checks", c.missed_self_checks},
                                                      {"demands", c.demands},
                                                      {"unmet", c.unmet},
                                                      {"gates", c.gates},
                                                      {"red_gates", c.red_gates},
                                                      {"faults", c.faults},
                                                      {"survived", c.survived},
                                                      {"gaps", c.gaps}};
  for (const auto& [name, n] : c.verdicts) all.emplace_back("verdict." + name, n);
  for (const auto& [name, n] : c.states) all.emplace_back("bucket." + name, n);
  for (const auto& [name, n] : c.findings) all.emplace_back("finding." + name, n);
  for (const auto& [name, n] : c.series) all.emplace_back("series." + name, n);
  return all;
}

nlohmann::ordered_json json_of(const Counts& c) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [key, n] : listed(c))
    if (key.find('.') == std::string::npos) object[key] = n;
  object["verdicts"] = json_of(c.verdicts);
  object["states"] = json_of(c.states);
  object["findings"] = json_of(c.findings);
  object["series"] = json_of(c.series);
  return object;
}

nlohmann::ordered_json json_head(const ReportModel& p) {
  const auto codes = exit_codes(p);
  nlohmann::ordered_json head;
  head["schema"] = kSchema;
  head["tool_version"] = tool_version();
  head["exit_code"] = codes.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(codes[0]);
  head["exit_codes"] = codes;
  head["headline"] = headline(p).text;
  head["counts"] = output::json_of(p.counts);
  return head;
}

std::string dumped(const nlohmann::ordered_json& document) {
  return document.dump(2) + "\n";
}

std::string render_counts_json(const ReportModel& p) {
  return dumped(json_head(p));
}

std::string render_json(const ReportModel& p) {
  auto document = json_head(p);
  document["runs"] = json_of(p.runs);
  document["verdicts"] = json_of(p.verdicts);
  document["failures"] = json_of_live(p);
  document["buckets"] = json_of(p.buckets);
  document["judgement"] = p.judgement.rows.empty()
                              ? nlohmann::ordered_json()
                              : output::json_of(p.judgement.columns, p.judgement.rows[0]);
  document["findings"] = json_of(p.findings);
  document["series"] = json_of(p.series);
  document["plan"] = json_of(p.plan);
  document["gates"] = json_of(p.gates);
  document["faults"] = json_of(p.faults);
  document["coverage_gaps"] = json_of(p.gap_kinds);
  return dumped(document);
}

}  // namespace lockstep::output
