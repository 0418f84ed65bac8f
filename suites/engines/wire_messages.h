// SPDX-License-Identifier: Apache-2.0
// A Case, and what an engine answers, as JSON and bytes: an engine needs neither a parser of tokens nor a
// generator of values.
#pragma once
#include <functional>
#include <vector>

#include "oracle/program/program.h"
#include "oracle/program/values.h"
#include "suites/core/engine_under_test.h"
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

Message write_result(const EngineResult& result, const DeviceMesh& mesh);
// How many positions of a mesh a result tells of.
using Positions = std::function<int64_t(const DeviceMesh& mesh)>;
inline int64_t all_positions(const DeviceMesh& mesh) {
  return mesh.size();
}
// @post as many values as the Case has, each with a local tensor for so many positions of its mesh. Throws
// what wire_values.h says for any other message.
EngineResult read_result(const Message& message, const oracle::Case& c,
                         const Positions& positions = all_positions);

Json write_profile(const EngineProfile& profile);
EngineProfile read_profile(const Json& json);

}  // namespace lockstep::suites::wire
