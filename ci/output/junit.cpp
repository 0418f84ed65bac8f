// SPDX-License-Identifier: Apache-2.0
// JUnit XML in the form that Jenkins and Surefire read: failure is a difference, error is a broken harness,
// skipped is what was muted or could not be measured.
#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

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

std::string time_attribute(double seconds) {
  char text[40];
  std::snprintf(text, sizeof(text), "%.3f", std::max(seconds, 0.0));
  return attribute("time", text);
}

// How a testcase came out; the element of that name is inside it.
enum Outcome { kPassed, kFailure, kError, kSkipped };
constexpr const char* kElements[] = {"", "failure", "error", "skipped"};

struct Test {
  std::string name;
  Outcome outcome = kPassed;
  std::string type{}, message{}, text{};
  double seconds = 0;
};

struct Suite {
  std::string name{}, cases{}, properties{};
  double seconds = 0;
  std::array<int64_t, 4> outcomes{};

  void add(const Test& test) {
    ++outcomes[test.outcome];
    seconds += test.seconds;
    cases += "    <testcase" + attribute("classname", "lockstep." + name) + attribute("name", test.name) +
             time_attribute(test.seconds);
    const std::string text = xml(cut(utf8(test.text), kMostText), false), element = kElements[test.outcome];
    if (test.outcome != kPassed)
      cases += "><" + element + attribute("type", test.type) + attribute("message", test.message) + ">" +
               text + "</" + element + "></testcase>\n";
    else
      cases += text.empty() ? "/>\n" : "><system-out>" + text + "</system-out></testcase>\n";
  }
  void property(const std::string& key, int64_t value) {
    properties +=
        "      <property" + attribute("name", key) + attribute("value", std::to_string(value)) + "/>\n";
  }
  std::string counts() const {
    const auto tests = std::accumulate(outcomes.begin(), outcomes.end(), int64_t{0});
    return attribute("tests", std::to_string(tests)) + attribute("failures", std::to_string(outcomes[1])) +
           attribute("errors", std::to_string(outcomes[2]));
  }
};

// Law: a suite passes if none of its cases fails, is an error if only the harness failed, and is skipped, not
// passed, if only muted buckets fail or every case gave up.
Test every_case(const ReportModel& p, Suite& suite, bool all_muted) {
  Test test{"every case"};
  int64_t cases = 0, failing = 0, broken = 0, gave_up = 0, fine = 0;
  for (const Row& v : p.verdicts) {
    const std::string verdict = v.text("verdict");
    if (v.text("suite") != suite.name) continue;
    const std::string key = (v.integer("self_check") != 0 ? "self_check." : "verdict.") + verdict;
    suite.property(key, v.integer("cases"));
    test.text += key + " " + v.text("cases") + "\n";
    test.seconds += v.number("seconds");
    cases += v.integer("cases");
    (verdict == "gave_up"        ? gave_up
     : verdict == "broken"       ? broken
     : v.integer("failure") != 0 ? failing
                                 : fine) += v.integer("cases");
  }
  const std::string said = plural(failing, "case fails", "cases fail") + " of " + std::to_string(cases);
  const auto came_out = [&](Outcome outcome, const char* type, const std::string& message) {
    return Test{test.name, outcome, type, message, test.text, test.seconds};
  };
  if (failing + broken > 0 && all_muted) return came_out(kSkipped, "muted", said + ", all in muted buckets");
  if (failing > 0) return came_out(kFailure, "cases", said);
  if (broken > 0) return came_out(kError, "broken", plural(broken, "case broke", "cases broke"));
  if (gave_up == cases) return came_out(kSkipped, "gave_up", "every case gave up");
  return test;
}

Test test_of_bucket(const Row& f) {
  const std::string verdict = f.text("verdict"), bucket = f.text("bucket");
  const std::string message = plural(f.integer("cases"), "case", "cases") + " " + verdict + ": " +
                              f.text("op") + " on " + f.text("placement") + ", mesh " + f.text("mesh");
  const std::string text = "law: " + f.text("law") + "\nstate: " + f.text("state") + "\n";
  if (muted(f)) {
    const std::string mute =
        "muted by " + f.text("owner") + " until " + f.text("expires") + ": " + f.text("reason");
    return {bucket, kSkipped, "muted", mute, text + message};
  }
  return {bucket, verdict == "broken" ? kError : kFailure, verdict, message,
          text + f.text("explanation") + "\n" + cut(utf8(f.text("program")), 16'000) +
              "\nreplay: " + f.text("replay") + "\n"};
}

Suite suite_of_cases(const ReportModel& p, const std::string& name) {
  Suite suite{name};
  Table buckets;
  std::copy_if(p.failures.begin(), p.failures.end(), std::back_inserter(buckets),
               [&](const Row& f) { return f.text("suite") == name; });
  suite.add(every_case(p, suite, !buckets.empty() && std::all_of(buckets.begin(), buckets.end(), muted)));
  for (const Row& f : buckets) suite.add(test_of_bucket(f));
  return suite;
}

// Law: a testcase for each rule that found something; it fails if one of its findings blocks.
Suite suite_of_findings(const ReportModel& p) {
  std::map<std::string, std::pair<Test, long>> rules;
  for (const Row& f : p.findings) {
    auto& [test, findings] = rules[f.text("rule")];
    ++findings;
    const std::string line = f.text("effect") + ": " + f.text("subject") + ": " + f.text("detail") +
                             " (expected " + f.text("expected") + ", got " + f.text("got") + ")";
    if (test.text.size() < kMostText) test.text += line + "\n";
    if (f.text("effect") != "block") continue;
    if (test.outcome == kPassed) test.message = line;
    if (test.outcome != kFailure) test.outcome = of_harness(f.integer("code")) ? kError : kFailure;
  }
  Suite suite{"gate"};
  for (auto& [rule, found] : rules) {
    auto& [test, findings] = found;
    test.name = test.type = rule;
    test.message = plural(findings, "finding: ", "findings: ") + test.message;
    suite.add(test);
  }
  return suite;
}

// The rules of the runs, the demands of their plan, and the planted faults: each passes or comes out as
// `red`.
template <class Say>
Suite suite_of(const char* name, const Table& table, const char* key, const char* passed, Outcome red,
               Say&& say) {
  Suite suite{name};
  for (const Row& row : table)
    suite.add({row.text(key), row.integer(passed) != 0 ? kPassed : red, key, say(row), say(row)});
  return suite;
}

// The verdict on the whole, so that a store without any case is red and not an empty green, and all counts,
// where readers look for what a suite is about.
Suite suite_of_whole(const ReportModel& p) {
  Suite suite{"lockstep"};
  for (const auto& [key, n] : p.counts) suite.property(key, n);
  const Headline whole = headline(p);
  const auto codes = exit_codes(p);
  const Outcome red = !codes.empty() && of_harness(codes[0]) ? kError : kFailure;
  suite.add({"verdict", whole.red ? red : kPassed, "headline", whole.text, whole.text});
  return suite;
}

std::vector<Suite> suites_of(const ReportModel& p) {
  std::vector<Suite> suites = {suite_of_whole(p)};
  std::set<std::string> known;
  for (const Table* table : {&p.verdicts, &p.failures})
    for (const Row& row : *table)
      if (const auto name = row.text("suite"); known.insert(name).second)
        suites.push_back(suite_of_cases(p, name));
  suites.push_back(suite_of_findings(p));
  // Where the gate judged, its findings count: a run's own rules know no mutes and no baseline.
  const Outcome red_rule = judged(p) ? kSkipped : kFailure;
  suites.push_back(suite_of("rules", p.gates, "rule", "passed", red_rule, [](const Row& gate) {
    return "required " + gate.text("required") + ", got " + gate.text("got");
  }));
  suites.push_back(suite_of("plan", p.plan, "name", "met", kFailure, [](const Row& demand) {
    return "at least " + demand.text("least") + " of " + demand.text("kind") + ", got " + demand.text("got");
  }));
  suites.push_back(suite_of("planted faults", p.faults, "fault", "found", kFailure, [](const Row& fault) {
    return plural(fault.integer("cases"), "case", "cases") + " by suite " + fault.text("suite");
  }));
  return suites;
}

std::string timestamp(const ReportModel& p) {
  const std::time_t at = p.runs.empty() ? 0 : p.runs.back().integer("time");
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[40];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

}  // namespace

std::string render_junit(const ReportModel& p) {
  Suite all;
  std::string out;
  for (const Suite& suite : suites_of(p)) {
    if (suite.cases.empty()) continue;
    all.seconds += suite.seconds;
    for (size_t i = 0; i < all.outcomes.size(); ++i) all.outcomes[i] += suite.outcomes[i];
    out += "  <testsuite" + attribute("name", suite.name) + suite.counts() +
           attribute("skipped", std::to_string(suite.outcomes[kSkipped])) + time_attribute(suite.seconds) +
           attribute("timestamp", timestamp(p)) + ">\n";
    if (!suite.properties.empty()) out += "    <properties>\n" + suite.properties + "    </properties>\n";
    out += suite.cases + "  </testsuite>\n";
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"lockstep\"" + all.counts() +
         time_attribute(all.seconds) + ">\n" + out + "</testsuites>\n";
}

}  // namespace lockstep::output
