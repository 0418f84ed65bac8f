// SPDX-License-Identifier: Apache-2.0
// Cases of every suite. Each is a pure function of (run seed, suite, index).
#pragma once
#include <string>

#include "generators/ops/ops.h"
#include "generators/random/random_space.h"
#include "oracle/program/program.h"

namespace lockstep::generators {

// Throws Error that lists the suites for a name that is none.
oracle::Case generate(const std::string& suite, uint64_t run_seed, uint64_t index);

// One op, its operands and where they lie. The suites `ops` and `gradient` go round the table of templates.
oracle::Case op_case(Random random, const OpTemplate& op, bool backward = false);
// The same in the integer lane, if the op is exact there.
oracle::Case exact_op_case(Random random, const OpTemplate& op);
// Random ops, one after another: what each draws depends on where the stream stands.
oracle::Case random_case(Random random);

// What was built, with a seed and a device drawn.
oracle::Case finished(Builder& b, const char* suite);

// Appends so many ops, or a little fewer, with redistributions between them; of plain tensors while the
// Builder is outside, and with so many plain ones, in percent, among new inputs of one element.
void add_ops(Builder& b, int64_t count, bool before_backward, int64_t plain = 0);

// A family that has ops the case allows, then one of its ops; families are equal, not ops. Of other overloads
// of an op one in five is drawn. Null: there is none.
const OpTemplate* draw_op(Builder& b, bool before_backward);

// Ops that are repeated with something changed between (cache_cases.cpp).
oracle::Case cache_case(Random random);

// Programs at the edge of their DTensors (edge_cases.cpp): values leave them, plain tensors meet them.
oracle::Case edge_case(Random random);

// ---- of the suite `random` (random_cases.cpp) ----

// Random operators one after another, from one stream: the first is one of the point's, so that the cases of
// the covering array have every pair of the space; the others are drawn, for what each draws depends on where
// those before it left the stream. `others`: how many, at most.
oracle::Case random_point_case(Random random, const RandomPoint& point, int64_t others = 2);

// The index-th of the suite: twice around the covering array, then in turn a point of the array, points drawn
// freely, and programs of random ops with views and redistributions between them.
oracle::Case random_suite_case(Random random, uint64_t index);

}  // namespace lockstep::generators
