// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0: a result for each bucket of the file and for each finding of the newest judgement.
#include <algorithm>
#include <array>
#include <utility>

#include "ci/output/output.h"
#include "ci/output/text.h"
#include "ci/output/view.h"
#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"

namespace lockstep::output {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostText = 8'000, kMostName = 1'000;

// A message of SARIF writes braces twice, for {0} is a placeholder, and "](" would begin a link.
Json message(const std::string& text) {
  std::string out;
  for (const char c : cut(visible(text), kMostText)) {
    if (c == '{' || c == '}') out += c;
    if (c == '(' && out.ends_with(']')) out += '\\';
    out += c;
  }
  return {{"text", out.empty() ? "-" : out}};
}

// Law: two texts have one name exactly if they are equal, but for collisions of the hash of long ones.
std::string identity(const std::string& text) {
  const std::string clean = one_line(text);
  if (clean == text && text.size() <= kMostName) return text;
  return cut(clean, kMostName) + " #" + dashboard::hex(dashboard::Hasher().add(text).key());
}

// A path of one segment: what is no letter, digit, '-', '_' or '.' in percent signs.
std::string segment(const std::string& text) {
  std::string out;
  for (const char c : cut(utf8(text), 100)) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || (c == '.' && !out.empty())) {
      out += c;
      continue;
    }
    std::array<char, 4> hex{};
    std::snprintf(hex.data(), hex.size(), "%%%02X", byte);
    out += hex.data();
  }
  return out.empty() ? "-" : out;
}

class Rules {
 public:
  size_t index(const std::string& id, const std::string& text) {
    const auto [at, fresh] = known_.try_emplace(id, rules_.size());
    if (fresh) rules_.push_back({{"id", id}, {"shortDescription", {{"text", text}}}});
    return at->second;
  }
  Json take() { return std::move(rules_); }

 private:
  std::map<std::string, size_t> known_;
  Json rules_ = Json::array();
};

// There is no line of source to show: code scanning demands a file, so the suite stands for one.
Json location(const std::string& suite, const std::string& op, const std::string& placement) {
  Json logical = Json::array();
  logical.push_back({{"name", identity(op)}, {"kind", "function"}});
  if (!placement.empty())
    logical.push_back({{"name", identity(placement)},
                       {"fullyQualifiedName", identity(op + " " + placement)},
                       {"kind", "parameter"}});
  return {{"physicalLocation",
           {{"artifactLocation", {{"uri", "lockstep/" + segment(suite)}}}, {"region", {{"startLine", 1}}}}},
          {"logicalLocations", std::move(logical)}};
}

// state of v_buckets -> baselineState. A regressed bucket was absent, so it is new again; a muted one is
// known.
const char* baseline(const std::string& state) {
  static constexpr std::array<std::pair<std::string_view, const char*>, 6> kStates = {
      {{"new", "new"},
       {"regressed", "new"},
       {"active", "unchanged"},
       {"muted", "unchanged"},
       {"incubating", "absent"},
       {"fixed", "absent"}}};
  for (const auto& [name, value] : kStates)
    if (name == state) return value;
  return "unchanged";
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string brief(const Row& row, const char* column) {
  return cut(one_line(row.text(column)), kMostName);
}

bool gone(const Row& bucket) {
  return std::string_view(baseline(bucket.text("state"))) == "absent";
}

Json result_of_bucket(const Row& b, Rules& rules) {
  const std::string state = b.text("state"), law = or_dash(b.text("law")), id = identity(law);
  Json result = {
      {"ruleId", id},
      {"ruleIndex", rules.index(id, "Law: " + cut(one_line(law), kMostName))},
      {"level", gone(b) ? "note" : "error"},
      {"message", message(plural(b.integer("cases"), "case", "cases") + " " + b.text("verdict") + ": " +
                          b.text("op") + " on " + b.text("placement") + ", mesh " + b.text("mesh") + ". " +
                          b.text("explanation") + "\n" + b.text("replay"))},
      {"locations", Json::array({location(b.text("suite"), or_dash(b.text("op")), b.text("placement"))})},
      {"partialFingerprints", {{"bucketSignature/v1", identity(b.text("bucket"))}}},
      {"baselineState", baseline(state)},
      {"occurrenceCount", std::max<int64_t>(b.integer("cases"), 1)},
      {"properties",
       {{"state", state},
        {"suite", brief(b, "suite")},
        {"verdict", b.text("verdict")},
        {"firstCommit", brief(b, "first_commit")},
        {"lastCommit", brief(b, "last_commit")},
        {"token", cut(one_line(b.text("token")), kMostText)}}}};
  const std::string mute = b.text("owner") + " until " + b.text("expires") + ": " + b.text("reason");
  if (muted(b))
    result["suppressions"] = Json::array(
        {{{"kind", "external"}, {"status", "accepted"}, {"justification", cut(one_line(mute), kMostText)}}});
  return result;
}

Json result_of_finding(const Row& f, Rules& rules) {
  const std::string rule = or_dash(f.text("rule")), subject = f.text("subject"), effect = f.text("effect");
  const std::string id = identity(rule), replay = f.text("replay");
  return {{"ruleId", id},
          {"ruleIndex", rules.index(id, "Rule of the gate: " + cut(one_line(rule), kMostName))},
          {"level", effect == "block"  ? "error"
                    : effect == "warn" ? "warning"
                                       : "note"},
          {"message", message(subject + ": " + f.text("detail") + " Expected " + f.text("expected") +
                              ", got " + f.text("got") + "." + (replay.empty() ? "" : "\n" + replay))},
          {"locations", Json::array({location("gate", or_dash(subject), "")})},
          {"partialFingerprints", {{"finding/v1", identity(rule + " | " + subject)}}},
          {"baselineState", "new"},
          {"properties", {{"effect", effect}, {"exitCode", f.integer("code")}}}};
}

// Blocking findings, live buckets, other findings, buckets that are gone: a cut takes from the end.
Json results_of(const ReportModel& p, Rules& rules) {
  Json results = Json::array();
  const auto add = [&](const Table& table, const auto& keep, const auto& result_of) {
    for (const Row& row : table)
      if (results.size() < kMostResults && keep(row)) results.push_back(result_of(row, rules));
  };
  const auto blocks = [](const Row& finding) { return finding.text("effect") == "block"; };
  add(p.findings, blocks, result_of_finding);
  add(p.buckets, std::not_fn(gone), result_of_bucket);
  add(p.findings, std::not_fn(blocks), result_of_finding);
  add(p.buckets, gone, result_of_bucket);
  return results;
}

Json invocation(const ReportModel& p, size_t shown, size_t all) {
  const auto codes = exit_codes(p);
  const bool broke = std::any_of(codes.begin(), codes.end(), of_harness);
  Json told = {{"executionSuccessful", !broke && !p.runs.empty()}};
  if (!codes.empty()) told["exitCode"] = codes[0];
  Json notes = Json::array();
  notes.push_back({{"level", headline(p).red ? "error" : "note"}, {"message", message(headline(p).text)}});
  if (shown < all)
    notes.push_back(
        {{"level", "warning"},
         {"message", message(std::to_string(all - shown) + " of " + std::to_string(all) +
                             " results were left out: code scanning takes no more. lockstep export "
                             "--format json has all.")}});
  told["toolExecutionNotifications"] = std::move(notes);
  return told;
}

}  // namespace

std::string render_sarif(const ReportModel& p) {
  Rules rules;
  const size_t all = p.buckets.size() + p.findings.size();
  Json results = results_of(p, rules);
  const size_t shown = results.size();
  Json properties = {
      {"counts", json_of(p.counts)}, {"exitCodes", exit_codes(p)}, {"resultsLeftOut", all - shown}};
  Json run = {{"tool",
               {{"driver",
                 {{"name", "Lockstep"},
                  {"version", tool_version()},
                  {"semanticVersion", tool_version()},
                  {"rules", rules.take()}}}}},
              {"automationDetails", {{"id", "lockstep/"}}},
              {"columnKind", "unicodeCodePoints"},
              {"invocations", Json::array({invocation(p, shown, all)})},
              {"results", std::move(results)},
              {"properties", std::move(properties)}};
  return dumped(
      {{"$schema",
        "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"},
       {"version", "2.1.0"},
       {"runs", Json::array({std::move(run)})}});
}

}  // namespace lockstep::output
