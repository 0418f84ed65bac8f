// SPDX-License-Identifier: Apache-2.0
// The two stores of a judgement on one connection, with what the rules read of them.
#pragma once
#include <memory>
#include <string>

#include "ci/gate/policy.h"
#include "dashboard/store/store.h"

namespace lockstep::gate {

// rules_series.cpp: what fills the table `speed`.
extern const char *const kJudgeCounted, *const kReadTimed, *const kTimedWithoutVerdict, *const kOtherNumbers;

// What the caller says the candidate is; empty: nothing is claimed.
struct Claims {
  std::string commit, build;
  std::string speed{};  // file of the verdicts of `ci/speed` on its timed series
};

// The candidate is `main`, the baseline `base`; neither is changed. Of each, the runs of its newest commit
// count (the baseline without runs that the candidate has too, or of another engine). Temporary tables hold,
// for both sides (c_ and b_):
//   run       columns of table run           verdicts  suite, self_check, verdict, severity, failure, cases
//   measured  suite, cases (neither given up nor broken)   failures  columns of v_failures, one row a bucket
//   coverage  op, placement, hits            labels    label, hits       refusals  suite, op, reason, hits
//   explained suite, op, placement ('': all), hits (cases that were explained), n (all)
//   curves    columns of v_curve_diff        points    columns of v_curves
//   series, faults, plan, gates, replayed, environment     columns of the view of this name
// failures have two columns more: counted ("3 cases"), and line, the explanation's first. Beside them
//   b_buckets  v_buckets of the baseline's whole file, of that engine
//   fresh      c_failures that the baseline lacks, with the life of their buckets
//   often      share: how much of the baseline's cases the candidate has; least: hits to be expected of
//              what is lost
//   same_case  cases of the candidate that are not equal, with what the baseline's binary made of them; of
//              cases that passed there the baseline may have the key alone (`settled`)
//   number, demand, mute, claim: the policy; speed: the measured series of the candidate, judged
class Sides {
 public:
  Sides(const std::string& baseline, const std::string& candidate, const Policy& policy, const Claims& claims,
        const std::string& today);
  SQLite::Database& database() const { return candidate_.database(); }

 private:
  dashboard::Store candidate_, baseline_;
};

// Today's date where the gate runs, YYYY-MM-DD in UTC.
std::string today();

}  // namespace lockstep::gate
