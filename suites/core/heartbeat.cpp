// SPDX-License-Identifier: Apache-2.0
#include "suites/core/heartbeat.h"

namespace lockstep::suites {
namespace {

void (*watcher)() = nullptr;

}  // namespace

void beat() {
  if (watcher != nullptr) watcher();
}

void on_beat(void (*signal)()) {
  watcher = signal;
}

}  // namespace lockstep::suites
