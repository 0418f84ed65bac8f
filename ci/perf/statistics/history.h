// SPDX-License-Identifier: Apache-2.0
// The verdict on a timed series that was measured without its baseline: the newest point beside what the same
// machine measured before.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "ci/perf/statistics/policy.h"
#include "ci/perf/statistics/turns.h"

namespace lockstep::perf {

struct HistoryVerdict {
  Finding finding = Finding::kNotMeasured;
  Reason reason = Reason::kNone;
  int points = 0;         // of history
  double effect = 0;      // log ratio of the newest point to the median of the five before it
  double band = 0;        // what history's own points deviate, as log ratio; infinite without enough of them
  double detectable = 0;  // log ratio
  double false_alarms =
      0;  // share of points beyond the band of the others: its own, or the machine's if greater
  bool wants_second = false;
  bool confirmed = false;
};

// One series: its points, oldest first and positive; the newest, and the same of the second batch of its run.
struct History {
  std::vector<double> points{};
  double newest = 0;
  std::optional<double> second{};
};

// Law: a point within the band, or within the floor, raises no alarm; one beyond raises it if the second
// batch of the same run lies beyond on the same side. Where the points of all series together lie beyond the
// bands more often than chance explains, the machine is unsteady, and nothing is said of any. Only the newest
// policy.history_most points count. `family` is the number of timed series judged together.
std::vector<HistoryVerdict> judge_histories(std::span<const History> series, size_t family,
                                            const Policy& policy);

}  // namespace lockstep::perf
