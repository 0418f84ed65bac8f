// SPDX-License-Identifier: Apache-2.0
#include "ci/perf/sentences.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "ci/perf/statistics/turns.h"

namespace lockstep::perf {
namespace {

std::string number(double x, const char* format = "%.6g") {
  char text[64];
  std::snprintf(text, sizeof text, format, x);
  return text;
}

std::string percent(double part) {
  return number(100 * part, "%.1f") + " %";
}

// "12.3 % more": of the values, whatever is better.
std::string change(double ratio) {
  return percent(std::abs(ratio - 1)) + (ratio < 1 ? " less" : " more");
}

std::string would_show(const SeriesJudgement& j) {
  return j.detectable ? "a change of " + percent(*j.detectable) + " would have shown"
                      : std::string("no change could have shown");
}

std::string interval(const SeriesJudgement& j, const Policy& policy) {
  if (!j.low || !j.high) return "";
  return " (" + percent(1 - policy.alpha) + " interval " + number(*j.low, "%.3f") + " to " +
         number(*j.high, "%.3f") + " times)";
}

std::string unless_quiet(const SeriesJudgement& j, const Policy& policy, const char* remedy) {
  return would_show(j) + ", but " + percent(policy.max_detectable) + " must: " + remedy;
}

}  // namespace

std::string turns_sentence(const SeriesJudgement& j, size_t family, const Policy& policy) {
  const std::string effect = change(*j.ratio) + interval(j, policy);
  if (j.reason == "few")
    return std::to_string(j.samples) + " rounds can show nothing among " + std::to_string(family) +
           " series: measure " + std::to_string(least_rounds(family, policy)) +
           " at the least, the candidate twice in each";
  if (j.reason == "noise")
    return unless_quiet(j, policy, "measure more rounds, or on a machine that is quieter");
  if (j.reason == "unconfirmed") return effect + " in the first batch; the second was not measured";
  if (j.reason == "unsteady")
    return "this binary is blamed beside itself in " + percent(j.false_alarms.value_or(0)) +
           " of trials: take each sample in a process of its own, in a drawn order";
  if (j.verdict == "same") return effect + "; " + would_show(j);
  return effect + ", found twice; p " + number(j.p.value_or(1), "%.2g") + " over " + std::to_string(family) +
         " series; beside itself it is blamed in " + percent(j.false_alarms.value_or(0)) + " of trials";
}

std::string history_sentence(const SeriesJudgement& j, const Policy& policy) {
  if (j.reason == "new") return "this machine has no history of this series";
  if (j.reason == "few")
    return std::to_string(j.samples) + " points of history on this machine; " +
           std::to_string(policy.history_least) + " are needed";
  const std::string effect =
      change(*j.ratio) + " than the newest of " + std::to_string(j.samples) + " points";
  if (j.reason == "noise")
    return unless_quiet(j, policy, "measure in turns with a baseline binary, or gather more history");
  if (j.reason == "unsteady")
    return percent(j.false_alarms.value_or(0)) +
           " of the points of this machine lie beyond their bands themselves: measure in turns with a "
           "baseline "
           "binary";
  if (j.reason == "unconfirmed") return effect + ", beyond their band; the second batch was not measured";
  if (j.verdict == "same") return effect + ", within their band; " + would_show(j);
  return effect + ", beyond their band twice; " + percent(j.false_alarms.value_or(0)) +
         " of the points lay beyond it themselves";
}

std::string exact_sentence(const SeriesJudgement& j) {
  const double before = *j.baseline_value, now = *j.candidate_value;
  if (j.verdict == "same") return number(now) + " " + j.unit + ", as before";
  const bool worse = (now > before) == (j.better == "less");
  return number(before, "%.17g") + " became " + number(now, "%.17g") + " " + j.unit + ", which is " +
         (worse ? "worse" : "better");
}

std::string spread_sentence(const std::string& side, const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return "the " + std::to_string(values.size()) + " counts of the " + side + " differ, from " +
         number(*low, "%.17g") + " to " + number(*high, "%.17g");
}

}  // namespace lockstep::perf
