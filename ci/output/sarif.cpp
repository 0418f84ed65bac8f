// SPDX-License-Identifier: Apache-2.0
// SARIF 2.1.0: a result for each bucket of the file and for each finding of the newest judgement.
#include <algorithm>
#include <array>
#include <utility>

#include "ci/output/counts.h"
#include "ci/output/output.h"
#include "ci/output/text.h"
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
  std::string hash;
  for (const uint8_t byte : dashboard::Hasher().add(text).key()) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hash += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return cut(clean, kMostName) + " #" + hash;
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

Json result_of_bucket(const ReportModel& p, size_t row, Rules& rules) {
  const Table& b = p.buckets;
  const std::string state = b.text(row, "state"), law = or_dash(b.text(row, "law"));
  const bool absent = std::string_view(baseline(state)) == "absent";
  const std::string id = identity(law);
  Json result = {
      {"ruleId", id},
      {"ruleIndex", rules.index(id, "Law: " + cut(one_line(law), kMostName))},
      {"level", absent ? "note" : "error"},
      {"message",
       message(plural(b.integer(row, "cases"), "case", "cases") + " " + b.text(row, "verdict") + ": " +
               b.text(row, "op") + " on " + b.text(row, "placement") + ", mesh " + b.text(row, "mesh") +
               ". " + b.text(row, "explanation") + "\n" + b.text(row, "replay"))},
      {"locations",
       Json::array({location(b.text(row, "suite"), or_dash(b.text(row, "op")), b.text(row, "placement"))})},
      {"partialFingerprints", {{"bucketSignature/v1", identity(b.text(row, "bucket"))}}},
      {"baselineState", baseline(state)},
      {"occurrenceCount", std::max<int64_t>(b.integer(row, "cases"), 1)},
      {"properties",
       {{"state", state},
        {"suite", cut(one_line(b.text(row, "suite")), kMostName)},
        {"verdict", b.text(row, "verdict")},
        {"firstCommit", cut(one_line(b.text(row, "first_commit")), kMostName)},
        {"lastCommit", cut(one_line(b.text(row, "last_commit")), kMostName)},
        {"token", cut(one_line(b.text(row, "token")), kMostText)}}}};
  if (state == "muted")
    result["suppressions"] =
        Json::array({{{"kind", "external"},
                      {"status", "accepted"},
                      {"justification", cut(one_line(b.text(row, "owner") + " until " +
                                                     b.text(row, "expires") + ": " + b.text(row, "reason")),
                                            kMostText)}}});
  return result;
}

const char* level_of(const std::string& effect) {
  return effect == "block" ? "error" : effect == "warn" ? "warning" : "note";
}

Json result_of_finding(const ReportModel& p, size_t row, Rules& rules) {
  const Table& f = p.findings;
  const std::string rule = or_dash(f.text(row, "rule")), subject = f.text(row, "subject");
  const std::string id = identity(rule);
  std::string text = subject + ": " + f.text(row, "detail") + " Expected " + f.text(row, "expected") +
                     ", got " + f.text(row, "got") + ".";
  if (!f.text(row, "replay").empty()) text += "\n" + f.text(row, "replay");
  return {{"ruleId", id},
          {"ruleIndex", rules.index(id, "Rule of the gate: " + cut(one_line(rule), kMostName))},
          {"level", level_of(f.text(row, "effect"))},
          {"message", message(text)},
          {"locations", Json::array({location("gate", or_dash(subject), "")})},
          {"partialFingerprints", {{"finding/v1", identity(rule + " | " + subject)}}},
          {"baselineState", "new"},
          {"properties", {{"effect", f.text(row, "effect")}, {"exitCode", f.integer(row, "code")}}}};
}

// Rows of v_buckets: those that fail first, then those that are gone.
std::vector<size_t> in_order(const ReportModel& p) {
  std::vector<size_t> rows(p.buckets.rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  std::stable_partition(rows.begin(), rows.end(), [&](size_t i) {
    return std::string_view(baseline(p.buckets.text(i, "state"))) != "absent";
  });
  return rows;
}

// Blocking findings, live buckets, other findings, buckets that are gone: a cut takes from the end.
Json results_of(const ReportModel& p, Rules& rules, size_t most) {
  Json results = Json::array();
  const auto findings = [&](bool blocking) {
    for (size_t i = 0; i < p.findings.rows.size() && results.size() < most; ++i)
      if ((p.findings.text(i, "effect") == "block") == blocking)
        results.push_back(result_of_finding(p, i, rules));
  };
  const auto buckets = in_order(p);
  size_t next = 0;
  const auto take = [&](bool absent) {
    for (; next < buckets.size() && results.size() < most; ++next) {
      const bool gone = std::string_view(baseline(p.buckets.text(buckets[next], "state"))) == "absent";
      if (gone && !absent) return;
      results.push_back(result_of_bucket(p, buckets[next], rules));
    }
  };
  findings(true);
  take(false);
  findings(false);
  take(true);
  return results;
}

Json invocation(const ReportModel& p, size_t shown, size_t all) {
  const auto codes = exit_codes(p);
  const bool broke =
      std::any_of(codes.begin(), codes.end(), [](int c) { return c == 2 || c == 3 || c == 7; });
  Json told = {{"executionSuccessful", !broke && !p.runs.rows.empty()}};
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
  const size_t all = p.buckets.rows.size() + p.findings.rows.size();
  Json results = results_of(p, rules, kMostResults);
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
