// SPDX-License-Identifier: Apache-2.0
// The groups of a model as a StepPlan wants them: the outermost module, then the layers as they run.
#pragma once
#include "engine/fsdp/step_plan.h"
#include "suites/fsdp/model_table.h"
#include "suites/train/model_options.h"

namespace lockstep::suites {

// Of what is outside of the layers, the embedding alone is used before them.
std::vector<fsdp::StepGroup> step_groups(const ModelTable& model, const Coarse& coarse);
// As parallelize_model makes them, of blocks of one element.
std::vector<fsdp::StepGroup> step_groups(const ModelOptions& options);

int64_t numel(const std::vector<fsdp::StepGroup>& groups);  // of all parameters

}  // namespace lockstep::suites
