// SPDX-License-Identifier: Apache-2.0
// The suites whose law is the oracle itself: a sharded Program computes what one device computes, in bits, or
// differs with proof. They differ in the cases: one op, one op with its backward, random ops, whole programs.
#include "suites/core/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {

// Law: one op on any placements gives the oracle's bits.
Outcome judge_op(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kExplained);
}

// Law: so does its gradient for each leaf, from uneven output gradients.
Outcome judge_gradient(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kExplained);
}

// Law: random ops draw the single device's values whatever the sharding, and leave the stream where it would
// be.
Outcome judge_random(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kExplained);
}

// Law: a Program of several ops gives the oracle's bits for every value on every rank.
Outcome judge_program(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kExplained);
}

}  // namespace lockstep::suites
