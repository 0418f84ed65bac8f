// SPDX-License-Identifier: Apache-2.0
// Law: each rank holds exactly the elements that cutting by brute force gives it, in that order; replicas agree; the
// locals together are the tensor.
#include "suites/judge.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {

Outcome judge_layout(const oracle::Case& c, EngineUnderTest& engine) {
  return judge_against_oracle(c, engine, Allowed::kEqual);
}

}  // namespace lockstep::suites
