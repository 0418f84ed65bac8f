// SPDX-License-Identifier: Apache-2.0
// The faults by how the mistakes get in, a file for each, and what these are written with. fault.h has them
// all.
#pragma once
#include <functional>
#include <string_view>
#include <vector>

#include "oracle/program/program.h"
#include "suites/faults/fault.h"
#include "suites/faults/wrap.h"

namespace lockstep::suites {

// In which cases a fault can act at all.
using Touches = std::function<bool(const oracle::Case& c)>;

bool any(const oracle::Case& c);
bool many_ranks(const oracle::Case& c);
bool has_backward(const oracle::Case& c);
bool has_random(const oracle::Case& c);
bool writes(const oracle::Case& c);  // in place
// Some call's op is one of the overloads of `name` ("aten::mm"), or its in-place variant.
Touches calls(std::string_view name);
// Some call or its backward may be, by one of these stems of the name, with blanks between them: "add" is in
// add_, addmm, _foreach_add.
Touches mentions(std::string_view stems);

Touches on_ranks(Touches touches);          // and there are several
Touches pending_on_ranks(Touches touches);  // and something is Partial

namespace plant {

std::vector<Fault> world_faults();       // collectives
std::vector<Fault> overlap_faults();     // exchanges that overlap
std::vector<Fault> rule_faults();        // rows of the rule table
std::vector<Fault> bypass_faults();      // ways past the rules
std::vector<Fault> random_faults();      // the stream of a random op
std::vector<Fault> operator_faults();    // what a random op makes of its draw, here and in the plain run
std::vector<Fault> program_faults();     // another program is run
std::vector<Fault> result_faults();      // results are spoilt
std::vector<Fault> storage_faults();     // what ranks share
std::vector<Fault> order_faults();       // declared orders
std::vector<Fault> training_faults();    // the model and its update
std::vector<Fault> sharding_faults();    // fully_shard, and who uses it
std::vector<Fault> asking_faults();      // something else is asked of it
std::vector<Fault> buffer_faults();      // its plans and buffers
std::vector<Fault> optim_faults();       // optimizers of tiles and matrices
std::vector<Fault> checkpoint_faults();  // what is saved and loaded
std::vector<Fault> expert_faults();      // mixtures of experts
std::vector<Fault> plan_faults();        // plans, and plans that are optimized
std::vector<Fault> form_faults();        // lists, functional collectives, padded locals, other ranks
std::vector<Fault> process_faults();

// With nothing planted: engines that run the cases of a suite by other code than LockstepEngine's.
Plant unharmed_training();
Plant unharmed_sharding();
Plant unharmed_steps();
Plant unharmed_savings();
Plant unharmed_mixtures();
Plant unharmed_plans();

}  // namespace plant
}  // namespace lockstep::suites
