// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/random_coverage.h"

#include <set>

#include "dashboard/store/read_back.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/text.h"

namespace lockstep::suites {
namespace {

using generators::Absent;
using generators::RandomPair;

// The token of a judged case of the suite; empty for other lines.
std::string judged_token(const std::string& line) {
  const auto parts = split(line, '|');
  if (parts.size() != 5 || parts[0] != "random") return "";
  const bool judged = parts[3] == "equal" || parts[3] == "different" || parts[3].starts_with("explained");
  return judged ? std::string(parts[2]) : "";
}

std::string joined(const std::set<std::string>& names, const char* between) {
  std::string text;
  for (const auto& name : names) text += concat(text.empty() ? "" : between, name);
  return text;
}

// Of one reason: which values of a later axis each value of an earlier one lacks.
std::vector<std::string> lines_of(Absent why) {
  std::map<std::string, std::set<std::string>> lacks;
  int64_t count = 0;
  for (const auto& [pair, reason] : generators::random_pairs()) {
    if (reason != why) continue;
    ++count;
    lacks[generators::axis_values(pair.a)[pair.x]].insert(generators::axis_values(pair.b)[pair.y]);
  }
  std::map<std::string, std::set<std::string>> alike;
  for (const auto& [value, others] : lacks) alike[joined(others, ", ")].insert(value);
  if (count == 0) return {};
  std::vector<std::string> lines = {concat(count, " do not exist: ", generators::reason(why))};
  for (const auto& [others, values] : alike) lines.push_back(concat("  ", others, ": ", joined(values, " ")));
  return lines;
}

}  // namespace

RandomCoverage random_coverage(const dashboard::Store& store, const std::string& run) {
  std::set<RandomPair> met;
  for (const auto& line : dashboard::outcomes(store, run))
    if (const auto token = judged_token(line); !token.empty())
      for (const auto& point : generators::random_points(oracle::parse_token(token)))
        for (const auto& pair : generators::pairs_of(point)) met.insert(pair);
  RandomCoverage coverage;
  for (const auto& [pair, why] : generators::random_pairs()) {
    if (why != Absent::kNo) continue;
    ++coverage.exist;
    if (met.contains(pair))
      ++coverage.met;
    else
      coverage.missing.push_back(generators::to_string(pair));
  }
  return coverage;
}

std::string text_of(const RandomCoverage& coverage) {
  std::string axes;
  for (size_t axis = 0; axis < generators::kAxes; ++axis)
    axes += concat(axis == 0 ? "" : ", ", generators::axis_values(axis).size(), " ",
                   generators::axis_name(axis), axis == generators::kEvennessAxis ? "" : "s");
  return concat("random: ", coverage.met, " of ", coverage.exist, " pairs of the values of ", axes);
}

std::vector<std::string> absent_pairs() {
  std::vector<std::string> lines;
  for (const auto why : {Absent::kDtype, Absent::kPartial, Absent::kNothingCut, Absent::kNoShape}) {
    const auto more = lines_of(why);
    lines.insert(lines.end(), more.begin(), more.end());
  }
  return lines;
}

void judge(const RandomCoverage& coverage, RunSummary& summary, dashboard::Recorder& recorder) {
  const bool all = coverage.missing.empty();
  summary.lacking.insert(summary.lacking.end(), coverage.missing.begin(), coverage.missing.end());
  recorder.record(dashboard::Gate{"pairs of random operators", concat("all ", coverage.exist),
                                  std::to_string(coverage.met), all});
  if (!all) summary.codes.insert(kNotMeasured);
}

int64_t enough_random_cases() {
  return static_cast<int64_t>(generators::covering_points().size());
}

}  // namespace lockstep::suites
