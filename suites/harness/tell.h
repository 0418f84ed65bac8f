// SPDX-License-Identifier: Apache-2.0
// What people read about a case that failed.
#pragma once
#include <string>

#include "suites/harness/sequence.h"

namespace lockstep::suites {

// Verdict, bucket, the command that replays it with these flags, shrunk program and explanation. A negative
// index: no case of a run, only a token.
std::string failure_text(const Planned& planned, const oracle::Case& c, const Outcome& outcome,
                         const std::string& flags = "");
// What `lockstep replay` must be told of the engine, with a space before it; "": nothing.
std::string replay_flags(const std::string& fault, const std::string& engine, const std::string& world,
                         int64_t ranks, const std::string& chaos = "");

}  // namespace lockstep::suites
