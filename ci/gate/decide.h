// SPDX-License-Identifier: Apache-2.0
// What the gate writes: its judgements, and what people bless.
#pragma once
#include <string>

#include "ci/gate/judgement.h"

namespace lockstep::gate {

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
