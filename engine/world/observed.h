// SPDX-License-Identifier: Apache-2.0
// Exchanges, as activities of whoever records (engine/context/activity.h).
#pragma once
#include <string>

#include "engine/context/activity.h"
#include "engine/world/world.h"

namespace lockstep {

// world.exchange(asked), which is on until it has been waited for. Whoever begins one begins it so.
Work begin_exchange(World& world, Exchange asked);

// A collective for which the op that runs asks. @param bytes that hosted ranks receive from others
Activity collective(std::string name, int64_t bytes);

}  // namespace lockstep
