// SPDX-License-Identifier: Apache-2.0
// judge(): the gate itself.
#pragma once
#include <string>

#include "ci/gate/judgement.h"
#include "ci/gate/sides.h"

namespace lockstep::gate {

// Every row that a rule's query gives is a finding. Its effect is the policy's, else the rule's own, but
//   a failure whose bucket is muted, and a change that is blessed in either store, are only noted.
// Codes are those of the findings that block; findings are in the order block, warn, note, then that of the
// rules. Nothing is written.
// @throws StoreError if a store cannot be read.
Judgement judge(const std::string& baseline, const std::string& candidate, const Policy& policy,
                const Claims& claims, const std::string& today);

}  // namespace lockstep::gate
