// SPDX-License-Identifier: Apache-2.0
// The verdict on a timed series that was measured without its baseline: the newest point beside what the same
// machine measured before.
#pragma once
#include <optional>
#include <span>

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
  double false_alarms = 0;  // share of history's own points beyond the band
  bool wants_second = false;
  bool confirmed = false;
};

// Law: a point within the band, or within the floor, raises no alarm; one beyond raises it if the second
// batch of the same run lies beyond on the same side. `history` is oldest first, positive; only its newest
// policy.history_most points count. `family` is the number of timed series judged together.
HistoryVerdict judge_history(std::span<const double> history, double newest, std::optional<double> second,
                             size_t family, const Policy& policy);

}  // namespace lockstep::perf
