// SPDX-License-Identifier: Apache-2.0
// The other end of the wire: serves Lockstep's own engine.
#pragma once
#include "engine/world/c10d_world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/wire.h"

namespace lockstep::suites {

// What is put around the World of the case with this token.
using DecorateHosted = std::function<WorldPtr(WorldPtr world, const std::string& token)>;

// What a process answers that is asked to run a case on the ranks that it hosts (ranks_engine.h).
wire::Message answer_hosted(Processes& processes, const wire::Message& request,
                            const DecorateHosted& decorate = nullptr);

// Answers on these file descriptors until the other side closes; without a timeline, if it is withheld.
// @returns the exit code: 0, or 3 if what it read was no message.
int serve_engine(int in, int out, bool withhold_timeline = false);

// The same as one process of several, which answers for the ranks that it hosts.
int serve_ranks(int in, int out, const Seat& seat, const DecorateHosted& decorate = nullptr);

}  // namespace lockstep::suites
