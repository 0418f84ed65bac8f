// SPDX-License-Identifier: Apache-2.0
// What the gate says about a candidate: findings, each of which blocks, warns or is only noted. Values.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ci/gate/policy.h"

namespace lockstep::gate {

struct Finding {
  std::string rule, subject;  // "new_difference"; the bucket, suite, label, series, …
  Effect effect = Effect::kBlock;
  int code = 0;               // exit code of the program that it stands for
  std::string expected, got;  // what the baseline has and the candidate has; `got` is what a blessing names
  std::string detail;         // one sentence
  std::string replay;         // a shell command; empty if there is none
};

// One measured series beside the baseline's; the columns of v_series_verdicts.
struct SeriesVerdict {
  std::string series, kind, against, verdict;
  int64_t samples = 0;
  std::optional<double> ratio, low, high, p, detectable, false_alarms;
};

struct Judgement {
  std::string baseline, candidate;  // files, as given
  std::string commit, build_hash;   // of the candidate
  int64_t judged_ms = 0;
  Policy policy;
  std::vector<Finding> findings;  // those that block first
  std::vector<SeriesVerdict> series;
  std::set<int> codes;  // of what blocks
};

}  // namespace lockstep::gate
