// SPDX-License-Identifier: Apache-2.0
// Whether what is bypassed (engine/ops/rules/bypass.h) comes out as by the rules.
#pragma once
#include <optional>

#include "suites/core/engine_under_test.h"
#include "suites/core/outcome.h"

namespace lockstep::suites {

// Law: every value of a run that bypasses has the bits of one by rule, on every rank, and lies there. Where a
// call is refused by its rule nothing is compared. @pre engine.profile().has(Flag::kTimeline | Flag::kRules)
std::optional<Failed> bypassed_otherwise(const oracle::Case& c, EngineUnderTest& engine);

// Whether some call of it, or what a statement of it calls, may be bypassed.
bool may_bypass(const oracle::Case& c);

}  // namespace lockstep::suites
