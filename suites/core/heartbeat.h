// SPDX-License-Identifier: Apache-2.0
// Signs of life of a long case, for whoever watches this process.
#pragma once

namespace lockstep::suites {

inline void (*watcher)() = nullptr;

// From now on beat() calls `signal`; null: nothing.
inline void on_beat(void (*signal)()) {
  watcher = signal;
}
// In a worker: it is alive (the watchdog starts anew). No effect elsewhere.
inline void beat() {
  if (watcher != nullptr) watcher();
}

}  // namespace lockstep::suites
