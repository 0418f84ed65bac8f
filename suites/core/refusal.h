// SPDX-License-Identifier: Apache-2.0
// A refusal is a verdict: an engine that says no to a Program is right, wrong, or was not judged.
#pragma once
#include <string>
#include <vector>

#include "suites/core/judge.h"
#include "suites/core/suite.h"

namespace lockstep::suites {

// The engine refused the case because of placements. The oracle finds the call, by runs of what comes before
// it, and whether its tensors could have stayed where they are: the law holds if they could not, and fails if
// they could. The run that says where they are is judged as ever. A call that is composed of others, or of
// which that cannot be tried, gave up.
Outcome judge_refusal(const oracle::Case& c, EngineUnderTest& engine, Allowed allowed,
                      const dashboard::RefusalRow& refusal, const std::string& text);

// "refused: due: view" for such a reason of a refusal that Programs meet; empty for another.
std::string refusal_label(const std::string& reason);
// All that refusal_label() may give.
std::vector<std::string> refusal_labels();

}  // namespace lockstep::suites
