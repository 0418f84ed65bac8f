// SPDX-License-Identifier: Apache-2.0
// Signs of life of a long case, for whoever watches this process.
#pragma once

namespace lockstep::suites {

// In a worker: it is alive (the watchdog starts anew). No effect elsewhere.
void beat();
// From now on beat() calls `signal`; null: nothing.
void on_beat(void (*signal)());

}  // namespace lockstep::suites
