// SPDX-License-Identifier: Apache-2.0
// ThreadWorld: one rank a thread, and an exchange over the memory that they share. What it proves: nothing
// above World needs to host all ranks.
#pragma once
#include <functional>

#include "engine/world/board.h"

namespace lockstep {

// Runs `body` on n threads at once, each with the World that hosts its rank and no other.
// @post all threads have ended. If some threw, the first error by rank is thrown again, one that tells more
// than that another rank was lost before one that does not.
// @param patience how long a rank waits for another
void run_on_threads(int64_t n, Patience patience, const std::function<void(const WorldPtr& world)>& body);

}  // namespace lockstep
