// SPDX-License-Identifier: Apache-2.0
// The two stores of a judgement on one connection, with what the rules read of them.
#pragma once
#include <memory>
#include <string>

#include "ci/gate/policy.h"
#include "dashboard/store/store.h"

namespace lockstep::gate {

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
//   curves    columns of v_curve_diff        points    columns of v_curves        series  columns of v_series
// and b_buckets: v_buckets of the baseline's whole file, of that engine; number, demand, mute, claim: the
// policy; speed: the measured series of the candidate, judged.
class Sides {
 public:
  Sides(const std::string& baseline, const std::string& candidate, const Policy& policy, const Claims& claims,
        const std::string& today);
  SQLite::Database& database() const { return candidate_.database(); }
  const dashboard::Store& candidate() const { return candidate_; }
  const dashboard::Store& baseline() const { return baseline_; }

 private:
  dashboard::Store candidate_, baseline_;
};

// Today's date where the gate runs, YYYY-MM-DD in UTC.
std::string today();

}  // namespace lockstep::gate
