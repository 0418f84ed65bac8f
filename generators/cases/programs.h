// SPDX-License-Identifier: Apache-2.0
// Cases of every suite. Each is a pure function of (run seed, suite, index).
#pragma once
#include <string>

#include "generators/ops/ops.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// Throws Error that lists the suites for a name that is none.
oracle::Case generate(const std::string& suite, uint64_t run_seed, uint64_t index);

// One op, its operands and where they lie. The suites `ops` and `gradient` go round the table of templates.
oracle::Case op_case(Random random, const OpTemplate& op, bool backward = false);
// The same in the integer lane, if the op is exact there.
oracle::Case exact_op_case(Random random, const OpTemplate& op);
// One input and nothing done with it.
oracle::Case layout_case(Random random);
// One input, redistributed one to four times, with or without a backward.
oracle::Case redistribute_case(Random random);
// Random ops, one after another: what each draws depends on where the stream stands.
oracle::Case random_case(Random random);
// 1 to 12 ops with reuse, views, in-place and list ops, redistributions, random ops, backward, optimizer
// steps.
oracle::Case program_case(Random random, bool exact_terms = false);
// One op twice, with one ingredient of the decision changed, and a third time as at first.
oracle::Case cache_case(Random random);

}  // namespace lockstep::generators
