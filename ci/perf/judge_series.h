// SPDX-License-Identifier: Apache-2.0
// Verdicts on every measured series of a store: the gate's and the benchmark's way into this folder.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "ci/perf/arms.h"
#include "ci/perf/statistics/policy.h"

namespace lockstep::dashboard {
class Store;
}

namespace lockstep::perf {

// What was found out about one series: the columns of the table series_verdict, and what a reader needs to
// believe them. Ratios are candidate / baseline whatever is better; the verdict knows the direction.
struct SeriesJudgement {
  std::string series{}, area{};
  std::string kind = "timed";            // "counted", "timed"
  std::string against{};                 // "turns", "history", "exact"
  std::string verdict = "not measured";  // "same", "slower", "faster", "changed", "not measured"
  std::string better = "less";           // "less", "more"
  std::string unit{};
  // Why the verdict is "not measured": "new" (the baseline does not have it), "missing" (only the baseline
  // has it), "few" (samples), "noise" (an effect of max_detectable would not have shown), "unconfirmed" (an
  // alarm without its second batch), "unsteady" (the same binary is blamed too often), "nondeterministic"
  // (counted samples differ among themselves), "value" (not positive, too often). Empty with every other
  // verdict.
  std::string reason{};
  int64_t samples = 0;            // pairs, confirmation included; points of history; counted samples
  std::optional<double> ratio{};  // Hodges-Lehmann; of the confirmation batch where there is one
  std::optional<double> low{}, high{};
  std::optional<double> p{};           // corrected for the number of series
  std::optional<double> detectable{};  // 0.1 is 10 %
  std::optional<double> false_alarms{};
  std::optional<double> baseline_value{}, candidate_value{};  // medians
  bool confirmed = false;                                     // a second batch was measured and agrees
  std::string detail{};                                       // one sentence
};

// One judgement for each series that the newest run with samples in `candidate` or the newest in `baseline`
// has, by name. Timed series with an arm `baseline` are compared in turns, others with the history of the
// same machine (cpu, cores) in `baseline`; counted ones exactly. `baseline` may be null.
std::vector<SeriesJudgement> judge_series(const dashboard::Store& candidate, const dashboard::Store* baseline,
                                          const Policy& policy);

// The series whose first batch raises an alarm: measure them again (arms.h), then judge.
std::vector<std::string> series_to_confirm(const dashboard::Store& candidate,
                                           const dashboard::Store* baseline, const Policy& policy);

}  // namespace lockstep::perf
