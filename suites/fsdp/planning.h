// SPDX-License-Identifier: Apache-2.0
// The cases of the suite `planner`: a group of tensors for which shards are planned, as a Case, which is an
// empty Program on a mesh of as many ranks as shards.
#pragma once
#include <vector>

#include "engine/fsdp/planner.h"
#include "oracle/program/program.h"

namespace lockstep::suites {

struct Planning {
  std::vector<fsdp::BlockTensor> tensors;
  fsdp::PlanOptions options;
};

// Throws Error for a Case that is none.
Planning planning_of(const oracle::Case& c);
// @post planning_of(result) is `planning`
oracle::Case case_of(const Planning& planning);

// A pure function of both.
Planning any_planning(uint64_t run_seed, int64_t index);
// Smaller ones, the boldest first; none of them leads back.
std::vector<oracle::Case> simpler_plannings(const oracle::Case& c);

}  // namespace lockstep::suites
