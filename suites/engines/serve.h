// SPDX-License-Identifier: Apache-2.0
// The other end of the wire: serves Lockstep's own engine.
#pragma once

namespace lockstep::suites {

// Answers on these file descriptors until the other side closes; without a timeline, if it is withheld.
// @returns the exit code: 0, or 3 if what it read was no message.
int serve_engine(int in, int out, bool withhold_timeline = false);

}  // namespace lockstep::suites
