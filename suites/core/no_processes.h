// SPDX-License-Identifier: Apache-2.0
// What ends a program with code 77.
#pragma once
#include "engine/values/error.h"

namespace lockstep::suites {

// The processes cannot move bits here: their self-test failed, or they did not meet.
struct NoProcesses : Error {
  using Error::Error;
};

}  // namespace lockstep::suites
