// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/series.h"

#include <cstdio>

#include "ci/gate/rules.h"
#include "ci/perf/judge_series.h"

namespace lockstep::gate {
namespace {

perf::Policy numbers_of(const Policy& policy) {
  perf::Policy numbers;
  numbers.alpha = policy.numbers.at("alpha");
  numbers.floor = policy.numbers.at("effect_floor");
  numbers.max_detectable = policy.numbers.at("largest_detectable");
  return numbers;
}

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "nothing";
  char text[64];
  std::snprintf(text, sizeof text, "%.6g", *value);
  return text + (unit.empty() ? "" : " " + unit);
}

// The rule that the verdict is a finding of; nullptr: none.
const char* rule_of(const perf::SeriesJudgement& s) {
  if (s.verdict == "slower") return "slower";
  if (s.verdict == "faster") return "faster";
  if (s.verdict == "changed") {
    const bool more = s.candidate_value.value_or(0) > s.baseline_value.value_or(0);
    return more == (s.better == "less") ? "counted_more" : "counted_less";
  }
  if (s.verdict != "not measured" || s.reason == "new" || s.reason == "missing")
    return nullptr;  // or lost_series
  return s.reason == "nondeterministic" ? "nondeterminism" : "series_not_measured";
}

}  // namespace

SeriesFindings judge_series(const Sides& sides, const Policy& policy) {
  SeriesFindings all;
  for (const auto& s : perf::judge_series(sides.candidate(), &sides.baseline(), numbers_of(policy))) {
    if (s.area.empty()) continue;
    all.verdicts.push_back({s.series, s.kind, s.against, s.verdict, s.samples, s.ratio, s.low, s.high, s.p,
                            s.detectable, s.false_alarms});
    const char* name = rule_of(s);
    if (name == nullptr) continue;
    const Rule& rule = *find_rule(name);
    const bool measured = s.verdict != "not measured";
    all.findings.push_back({rule.name, s.series, rule.effect, rule.code,
                            measured ? value_text(s.baseline_value, s.unit) : "a verdict",
                            measured ? value_text(s.candidate_value, s.unit) : s.reason, s.detail, ""});
  }
  return all;
}

}  // namespace lockstep::gate
