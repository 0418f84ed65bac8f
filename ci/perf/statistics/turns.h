// SPDX-License-Identifier: Apache-2.0
// The verdict on timed series whose binaries were measured in turns.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ci/perf/statistics/paired.h"
#include "ci/perf/statistics/policy.h"

namespace lockstep::perf {

// Log ratios of the rounds of one series.
struct Turns {
  std::string name{};             // seeds the resampling
  std::vector<double> effect{};   // log(candidate / baseline)
  std::vector<double> same{};     // log(candidate / again)
  std::vector<double> confirm{};  // log(candidate / baseline) of the second batch; empty: not measured
};

enum class Finding { kNone, kMore, kLess, kNotMeasured };
enum class Reason { kNone, kFew, kNoise, kUnconfirmed, kUnsteady };

struct TurnsVerdict {
  Finding finding = Finding::kNotMeasured;
  Reason reason = Reason::kNone;
  Paired first{}, second{};  // second.n is 0 without a second batch
  double p = 1;              // corrected
  double detectable = 0;     // log ratio
  double false_alarms = 0;
  bool wants_second = false;  // the first batch raises an alarm
  bool confirmed = false;
};

// Law: with noise alone, the chance that any series is kMore or kLess is at most alpha. A series is kNone
// only where an effect of max_detectable would have shown: its resampled noise says so, and the interval, of
// level alpha, excludes it. `family` counts the timed series that are judged in this night, at least
// turns.size().
std::vector<TurnsVerdict> judge_turns(std::span<const Turns> turns, size_t family, const Policy& policy);

// Rounds of a batch below which nothing can be said with so many series: not even that all candidates were
// slower in every round would be enough, or an interval of level alpha has no ends.
int least_rounds(size_t family, const Policy& policy);

}  // namespace lockstep::perf
