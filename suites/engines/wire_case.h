// SPDX-License-Identifier: Apache-2.0
// A Case as JSON and bytes, so that an engine needs neither a parser of tokens nor a generator of values.
#pragma once
#include <vector>

#include "oracle/program/program.h"
#include "oracle/program/values.h"
#include "suites/engines/wire.h"

namespace lockstep::suites::wire {

// The request to run it, values of all inputs included.
Message write_case(const oracle::Case& c, const std::vector<oracle::InputTensors>& inputs);

// What a Case says but for how its values came to be: their kinds are not on the wire.
struct GivenCase {
  oracle::Case c;
  std::vector<oracle::InputTensors> inputs;  // locals only of what pends
};
GivenCase read_case(const Message& message);

}  // namespace lockstep::suites::wire
