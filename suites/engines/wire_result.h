// SPDX-License-Identifier: Apache-2.0
// What an engine answers, as JSON and bytes: its values, its timeline, who it is.
#pragma once
#include "suites/core/engine_under_test.h"
#include "suites/engines/wire.h"

namespace lockstep::suites::wire {

Message write_result(const EngineResult& result, const DeviceMesh& mesh);
// @post as many values as the Case has, each with a local tensor for every position of its mesh. Throws what
// wire_values.h says for any other message.
EngineResult read_result(const Message& message, const oracle::Case& c);

Json write_profile(const EngineProfile& profile);
EngineProfile read_profile(const Json& json);

}  // namespace lockstep::suites::wire
