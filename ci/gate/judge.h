// SPDX-License-Identifier: Apache-2.0
// What the gate says about a candidate: findings, each of which blocks, warns or is only noted. What it
// writes: its judgements, and what people bless.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ci/gate/policy.h"
#include "ci/gate/sides.h"

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

// Every row that a rule's query gives is a finding. Its effect is the policy's, else the rule's own, but
//   a failure whose bucket is muted, and a change that is blessed in either store, are only noted.
// Codes are those of the findings that block; findings are in the order block, warn, note, then that of the
// rules. Nothing is written.
// @throws StoreError if a store cannot be read.
Judgement judge(const std::string& baseline, const std::string& candidate, const Policy& policy,
                const Claims& claims, const std::string& today);

// Stores the judgement in the candidate's database, all of it or nothing. Its key is its content, so that
// merging a file twice keeps it once.
// @returns the row number of the judgement there.
int64_t record(const Judgement& judgement, int exit_code);

struct Blessing {
  std::string rule, subject, got;
  std::string reason, by;
};

// Accepts one finding of the newest judgement of `db` from now on, for exactly this rule, subject and value;
// the blessing is stored in `db`, and travels to the baseline by merge.
// @throws Error if there is no such finding, the rule cannot be blessed (a failure is mended or muted, never
// blessed), the reason is empty, or the subject is ambiguous.
Blessing bless(const std::string& db, const std::string& rule, const std::string& subject,
               const std::string& reason, const std::string& by);

}  // namespace lockstep::gate
