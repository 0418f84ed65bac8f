// SPDX-License-Identifier: Apache-2.0
// The measured series of a judgement: the verdicts of ci/perf, and which of them are findings.
#pragma once
#include <vector>

#include "ci/gate/judgement.h"
#include "ci/gate/sides.h"

namespace lockstep::gate {

struct SeriesFindings {
  std::vector<Finding> findings;  // with the effects of their rules
  std::vector<SeriesVerdict> verdicts;
};

// Timed: slower (4), faster (5), or not measured (5). Counted: more work (4), less (5), or not one count (6).
// A series that the baseline does not have is no finding. Only series that say what they are (table series)
// are judged.
SeriesFindings judge_series(const Sides& sides, const Policy& policy);

}  // namespace lockstep::gate
