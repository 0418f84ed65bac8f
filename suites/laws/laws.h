// SPDX-License-Identifier: Apache-2.0
// One pair of functions for each suite: its cases, and whether its law holds for one of them. table.cpp names
// them.
#pragma once
#include "suites/core/suite.h"
#include "suites/faults/fault.h"

namespace lockstep::suites {

Outcome judge_layout(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_redistribute(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_ragged(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_overlap(const oracle::Case& c, EngineUnderTest& engine);
oracle::Case rules_case(uint64_t run_seed, int64_t index);
Outcome judge_rules(const oracle::Case& c, EngineUnderTest& engine);
int64_t grid_cases();
oracle::Case grid_case(uint64_t run_seed, int64_t index);
Outcome judge_grid(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_metamorphic(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_cache(const oracle::Case& c, EngineUnderTest& engine);
Outcome judge_bypassed(const oracle::Case& c, EngineUnderTest& engine);

oracle::Case fault_case(uint64_t run_seed, int64_t index);
int64_t train_cases();
oracle::Case train_case(uint64_t run_seed, int64_t index);
Outcome judge_train(const oracle::Case& c, EngineUnderTest& engine);
void check_train(const oracle::Case& c);
std::vector<oracle::Case> simpler_train(const oracle::Case& c);
EngineResult run_train(const WorldPtr& world, const oracle::Case& c);

oracle::Case fsdp_case(uint64_t run_seed, int64_t index);
Outcome judge_fsdp(const oracle::Case& c, EngineUnderTest& engine);
void check_fsdp(const oracle::Case& c);
std::vector<oracle::Case> simpler_fsdp(const oracle::Case& c);
EngineResult run_fsdp(const WorldPtr& world, const oracle::Case& c);

oracle::Case dbuffer_case(uint64_t run_seed, int64_t index);
Outcome judge_dbuffer(const oracle::Case& c, EngineUnderTest& engine);
void check_dbuffer(const oracle::Case& c);
std::vector<oracle::Case> simpler_dbuffer(const oracle::Case& c);
EngineResult run_dbuffer(const WorldPtr& world, const oracle::Case& c);

oracle::Case optim_case(uint64_t run_seed, int64_t index);
Outcome judge_optim(const oracle::Case& c, EngineUnderTest& engine);
void check_optim(const oracle::Case& c);
std::vector<oracle::Case> simpler_optim(const oracle::Case& c);
EngineResult run_optim(const WorldPtr& world, const oracle::Case& c);

oracle::Case experts_case(uint64_t run_seed, int64_t index);
Outcome judge_experts(const oracle::Case& c, EngineUnderTest& engine);
void check_experts(const oracle::Case& c);
std::vector<oracle::Case> simpler_experts(const oracle::Case& c);
EngineResult run_experts(const WorldPtr& world, const oracle::Case& c);

oracle::Case plans_case(uint64_t run_seed, int64_t index);
Outcome judge_plans(const oracle::Case& c, EngineUnderTest& engine);
void check_plans(const oracle::Case& c);
std::vector<oracle::Case> simpler_plans(const oracle::Case& c);
EngineResult run_plans(const WorldPtr& world, const oracle::Case& c);

oracle::Case checkpoint_case(uint64_t run_seed, int64_t index);
Outcome judge_checkpoint(const oracle::Case& c, EngineUnderTest& engine);
void check_checkpoint(const oracle::Case& c);
std::vector<oracle::Case> simpler_checkpoint(const oracle::Case& c);
EngineResult run_checkpoint(const WorldPtr& world, const oracle::Case& c);

oracle::Case planner_case(uint64_t run_seed, int64_t index);
Outcome judge_planner(const oracle::Case& c, EngineUnderTest& engine);
void check_planner(const oracle::Case& c);
std::vector<oracle::Case> simpler_planner(const oracle::Case& c);

int64_t golden_cases();
oracle::Case golden_case(uint64_t run_seed, int64_t index);
Outcome judge_golden(const oracle::Case& c, EngineUnderTest& engine);
void check_golden(const oracle::Case& c);
std::vector<oracle::Case> simpler_golden(const oracle::Case& c);

// Of a case that has passed `here`, and of which a World runs the same (Suite::run).
Outcome judged_elsewhere(const oracle::Case& c, EngineUnderTest& engine, Passed here);

// Plants one fault beside a clean engine, and looks for a case that tells them apart.
Outcome look_for(const Fault& fault, EngineUnderTest& clean, Lane numerics = Lane::kExact);
Outcome judge_fault(const oracle::Case& c, EngineUnderTest& engine);
oracle::Case canary_case(uint64_t run_seed, int64_t index);
Outcome judge_canary(const oracle::Case& c, EngineUnderTest& engine);

}  // namespace lockstep::suites
