// SPDX-License-Identifier: Apache-2.0
// CountingWorld: a World that counts calls and the bytes that ranks receive from others.
#pragma once
#include "engine/world/world.h"

namespace lockstep::suites {

struct Traffic {
  int64_t calls = 0;
  int64_t bytes = 0;
};

// @post forwards everything to `world`, unchanged; `traffic` must outlive the result.
WorldPtr counting(WorldPtr world, Traffic& traffic);

}  // namespace lockstep::suites
