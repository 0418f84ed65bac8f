// SPDX-License-Identifier: Apache-2.0
// JUnit XML in the form that Jenkins and Surefire read: failure is a difference, error is a broken harness,
// skipped is what was muted or could not be measured.
#include <algorithm>
#include <array>
#include <ctime>

#include "ci/output/counts.h"
#include "ci/output/output.h"
#include "ci/output/text.h"

namespace lockstep::output {
namespace {

constexpr size_t kMostName = 4'000, kMostText = 64'000;

std::string xml(std::string_view text, bool attribute) {
  std::string out;
  for (const char c : visible(text)) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (attribute && (c == '\n' || c == '\t'))  // kept by a reader only as references
      out += c == '\n' ? "&#10;" : "&#9;";
    else
      out += c;
  }
  return out;
}

std::string attribute(std::string_view name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml(cut(utf8(value), kMostName), true) + "\"";
}

std::string seconds_text(double seconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3f", std::max(seconds, 0.0));
  return text;
}

// How a testcase came out; the element of that name is inside it.
enum class Outcome { kPassed, kFailure, kError, kSkipped };
constexpr std::array<const char*, 4> kElements = {"", "failure", "error", "skipped"};

struct Suite {
  std::string name{}, cases{}, properties{};
  double seconds = 0;
  int64_t tests = 0;
  std::array<int64_t, 4> by_outcome{};

  void add(const std::string& test, Outcome outcome, const std::string& type, const std::string& message,
           const std::string& text, double time = 0) {
    ++tests;
    ++by_outcome[static_cast<size_t>(outcome)];
    seconds += time;
    cases += "    <testcase" + attribute("classname", "lockstep." + name) + attribute("name", test) +
             attribute("time", seconds_text(time));
    const std::string body = xml(cut(utf8(text), kMostText), false);
    if (outcome == Outcome::kPassed) {
      cases += body.empty() ? "/>\n" : "><system-out>" + body + "</system-out></testcase>\n";
      return;
    }
    const std::string element = kElements[static_cast<size_t>(outcome)];
    cases += "><" + element + attribute("type", type) + attribute("message", message) + ">" + body + "</" +
             element + "></testcase>\n";
  }
  void property(const std::string& key, const std::string& value) {
    properties += "      <property" + attribute("name", key) + attribute("value", value) + "/>\n";
  }
  std::string counts() const {
    return attribute("tests", std::to_string(tests)) + attribute("failures", std::to_string(by_outcome[1])) +
           attribute("errors", std::to_string(by_outcome[2]));
  }
};

// Law: a suite passes if none of its cases fails, is an error if only the harness failed, and is skipped, not
// passed, if only muted buckets fail or every case gave up.
void add_cases(const ReportModel& p, const std::string& name, bool muted, Suite& suite) {
  int64_t cases = 0, failing = 0, broken = 0, gave_up = 0;
  double seconds = 0;
  std::string text;
  for (size_t i = 0; i < p.verdicts.rows.size(); ++i) {
    if (p.verdicts.text(i, "suite") != name) continue;
    const int64_t n = p.verdicts.integer(i, "cases");
    const std::string verdict = p.verdicts.text(i, "verdict");
    const bool self_check = p.verdicts.integer(i, "self_check") != 0;
    const std::string key = (self_check ? "self_check." : "verdict.") + verdict;
    suite.property(key, std::to_string(n));
    text += key + " " + std::to_string(n) + "\n";
    cases += n;
    seconds += p.verdicts.number(i, "seconds");
    if (verdict == "gave_up") gave_up += n;
    if (verdict == "broken")
      broken += n;
    else if (p.verdicts.integer(i, "failure") != 0)
      failing += n;
  }
  const std::string said = plural(failing, "case fails", "cases fail") + " of " + std::to_string(cases);
  if (failing + broken > 0 && muted)
    return suite.add("every case", Outcome::kSkipped, "muted", said + ", all in muted buckets", text,
                     seconds);
  if (failing > 0) return suite.add("every case", Outcome::kFailure, "cases", said, text, seconds);
  if (broken > 0)
    return suite.add("every case", Outcome::kError, "broken", plural(broken, "case broke", "cases broke"),
                     text, seconds);
  if (gave_up == cases)
    return suite.add("every case", Outcome::kSkipped, "gave_up", "every case gave up", text, seconds);
  suite.add("every case", Outcome::kPassed, "", "", text, seconds);
}

void add_bucket(const ReportModel& p, const Live& live, Suite& suite) {
  const Table& f = p.failures;
  const std::string verdict = f.text(live.failure, "verdict");
  const std::string message = plural(f.integer(live.failure, "cases"), "case", "cases") + " " + verdict +
                              ": " + f.text(live.failure, "op") + " on " + f.text(live.failure, "placement") +
                              ", mesh " + f.text(live.failure, "mesh");
  std::string text =
      "law: " + f.text(live.failure, "law") + "\nstate: " + p.buckets.text(live.bucket, "state") + "\n";
  if (live.muted) {
    const std::string mute = "muted by " + p.buckets.text(live.bucket, "owner") + " until " +
                             p.buckets.text(live.bucket, "expires") + ": " +
                             p.buckets.text(live.bucket, "reason");
    return suite.add(f.text(live.failure, "bucket"), Outcome::kSkipped, "muted", mute, text + message);
  }
  text += f.text(live.failure, "explanation") + "\n" + cut(utf8(f.text(live.failure, "program")), 16'000) +
          "\nreplay: " + f.text(live.failure, "replay") + "\n";
  suite.add(f.text(live.failure, "bucket"), verdict == "broken" ? Outcome::kError : Outcome::kFailure,
            verdict, message, text);
}

std::vector<std::string> names_of_suites(const ReportModel& p) {
  std::vector<std::string> names;
  for (const Table* table : {&p.verdicts, &p.failures})
    for (size_t i = 0; i < table->rows.size(); ++i) {
      const std::string name = table->text(i, "suite");
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  return names;
}

// Codes that say that the harness, not the program under test, is at fault.
bool is_error(int64_t code) {
  return code == 2 || code == 3 || code == 7;
}

// Law: a testcase for each rule that found something; it fails if one of its findings blocks.
Suite suite_of_findings(const ReportModel& p) {
  Suite suite{"gate"};
  std::map<std::string, std::vector<size_t>> rules;
  for (size_t i = 0; i < p.findings.rows.size(); ++i) rules[p.findings.text(i, "rule")].push_back(i);
  for (const auto& [rule, rows] : rules) {
    std::string text, first;
    Outcome outcome = Outcome::kPassed;
    for (const size_t i : rows) {
      const std::string line = p.findings.text(i, "effect") + ": " + p.findings.text(i, "subject") + ": " +
                               p.findings.text(i, "detail") + " (expected " + p.findings.text(i, "expected") +
                               ", got " + p.findings.text(i, "got") + ")";
      if (text.size() < kMostText) text += line + "\n";
      if (p.findings.text(i, "effect") != "block") continue;
      if (outcome == Outcome::kPassed) first = line;
      const Outcome here = is_error(p.findings.integer(i, "code")) ? Outcome::kError : Outcome::kFailure;
      outcome = outcome == Outcome::kFailure ? outcome : here;
    }
    suite.add(rule, outcome, rule, plural(static_cast<long>(rows.size()), "finding: ", "findings: ") + first,
              text);
  }
  return suite;
}

// The rules of the runs, the demands of their plan, and the planted faults: each passes or comes out as
// `red`.
Suite suite_of(const std::string& name, const Table& table, const std::string& key, const std::string& passed,
               Outcome red, const std::function<std::string(size_t)>& say) {
  Suite suite{name};
  for (size_t i = 0; i < table.rows.size(); ++i)
    suite.add(table.text(i, key), table.integer(i, passed) != 0 ? Outcome::kPassed : red, key, say(i),
              say(i));
  return suite;
}

// The verdict on the whole, so that a store without any case is red and not an empty green, and all counts,
// where readers look for what a suite is about.
Suite suite_of_whole(const ReportModel& p) {
  Suite suite{"lockstep"};
  for (const auto& [key, n] : listed(p.counts)) suite.property(key, std::to_string(n));
  const Headline whole = headline(p);
  const auto codes = exit_codes(p);
  const bool error = !codes.empty() && is_error(codes[0]);
  suite.add("verdict",
            !whole.red ? Outcome::kPassed
            : error    ? Outcome::kError
                       : Outcome::kFailure,
            "headline", whole.text, whole.text);
  return suite;
}

std::vector<Suite> suites_of(const ReportModel& p) {
  std::vector<Suite> suites = {suite_of_whole(p)};
  const auto live = live_buckets(p);
  for (const std::string& name : names_of_suites(p)) {
    Suite suite{name};
    std::vector<Live> buckets;
    for (const Live& bucket : live)
      if (p.failures.text(bucket.failure, "suite") == name) buckets.push_back(bucket);
    const bool muted = !buckets.empty() &&
                       std::all_of(buckets.begin(), buckets.end(), [](const Live& b) { return b.muted; });
    add_cases(p, name, muted, suite);
    for (const Live& bucket : buckets) add_bucket(p, bucket, suite);
    suites.push_back(std::move(suite));
  }
  suites.push_back(suite_of_findings(p));
  // Where the gate judged, its findings count: a run's own rules know no mutes and no baseline.
  const Outcome red_rule = judged(p) ? Outcome::kSkipped : Outcome::kFailure;
  suites.push_back(suite_of("rules", p.gates, "rule", "passed", red_rule, [&](size_t i) {
    return "required " + p.gates.text(i, "required") + ", got " + p.gates.text(i, "got");
  }));
  suites.push_back(suite_of("plan", p.plan, "name", "met", Outcome::kFailure, [&](size_t i) {
    return "at least " + p.plan.text(i, "least") + " of " + p.plan.text(i, "kind") + ", got " +
           p.plan.text(i, "got");
  }));
  suites.push_back(suite_of("planted faults", p.faults, "fault", "found", Outcome::kFailure, [&](size_t i) {
    return plural(p.faults.integer(i, "cases"), "case", "cases") + " by suite " + p.faults.text(i, "suite");
  }));
  return suites;
}

std::string timestamp(const ReportModel& p) {
  const std::time_t at = p.runs.rows.empty() ? 0 : p.runs.integer(p.runs.rows.size() - 1, "time");
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

}  // namespace

std::string render_junit(const ReportModel& p) {
  const auto suites = suites_of(p);
  Suite all;
  for (const Suite& suite : suites) {
    all.tests += suite.tests;
    all.seconds += suite.seconds;
    for (size_t i = 0; i < all.by_outcome.size(); ++i) all.by_outcome[i] += suite.by_outcome[i];
  }
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lockstep\"" +
                    all.counts() + attribute("time", seconds_text(all.seconds)) + ">\n";
  const auto write = [&](const Suite& suite) {
    out += "  <testsuite" + attribute("name", suite.name) + suite.counts() +
           attribute("skipped", std::to_string(suite.by_outcome[3])) +
           attribute("time", seconds_text(suite.seconds)) + attribute("timestamp", timestamp(p)) + ">\n";
    if (!suite.properties.empty()) out += "    <properties>\n" + suite.properties + "    </properties>\n";
    out += suite.cases + "  </testsuite>\n";
  };
  for (const Suite& suite : suites)
    if (suite.tests > 0) write(suite);
  return out + "</testsuites>\n";
}

}  // namespace lockstep::output
