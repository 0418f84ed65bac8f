// SPDX-License-Identifier: Apache-2.0
// What a step of a case of the suite `fsdp` sends and holds, as plan_step predicts it of the case's units.
#pragma once
#include <optional>
#include <vector>

#include "engine/fsdp/fully_shard.h"
#include "engine/fsdp/step_plan.h"
#include "suites/fsdp/sharding.h"

namespace lockstep::suites {

// Whether plan_step knows what the case asks for.
bool is_predicted(const Sharding& sharding);

// Of one forward and one backward pass that reduces. None: it is not predicted, or a block
// has no parameters.
// @param units the outermost first, then in the order in which they run
std::optional<fsdp::StepPlan> predicted_step(const Sharding& sharding, const std::vector<FSDPModule>& units);

}  // namespace lockstep::suites
