// SPDX-License-Identifier: Apache-2.0
// The faults by how the mistakes get in, a file for each, and what these are written with. fault.h has them
// all.
#pragma once
#include <vector>

#include "suites/faults/fault.h"
#include "suites/faults/touches.h"
#include "suites/faults/wrap.h"

namespace lockstep::suites::plant {

std::vector<Fault> world_faults();     // collectives
std::vector<Fault> rule_faults();      // rows of the rule table
std::vector<Fault> random_faults();    // the stream of a random op
std::vector<Fault> operator_faults();  // what a random op makes of its draw, here and in the plain run
std::vector<Fault> program_faults();   // another program is run
std::vector<Fault> result_faults();    // results are spoilt
std::vector<Fault> process_faults();

}  // namespace lockstep::suites::plant
