// SPDX-License-Identifier: Apache-2.0
// What eager mode redistributes though nobody asks for it, as rows of a plan.
#pragma once
#include "engine/plan/plan.h"
#include "engine/static_eager/step_log.h"

namespace lockstep {

// Of the way forward. Law: under a plan with these rows, too, the step redistributes nothing implicitly
// there, and has the same bits. @param on_the_way_back lines for the others, which are no rows
ParallelPlan implicit_rows(const StepLog& eager, std::string& on_the_way_back);

}  // namespace lockstep
