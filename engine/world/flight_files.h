// SPDX-License-Identifier: Apache-2.0
// The flights of ranks (flight_log.h) as files, written when something fails, and what errors say of them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "engine/world/board.h"
#include "engine/world/flight_log.h"

namespace lockstep {

// Writes each to the folder for temporary files, over what this process wrote for the same case and rank.
// @returns how to look at them, "\nlockstep show flight /tmp/lockstep-4711-c0ffee-rank-*.flight", or why
// there are none.
std::string keep_flights(const std::vector<Flight>& flights);
// The files of flights that this process wrote.
std::vector<std::string> own_flights();
// Removes those of them that were not there before and the text does not name.
void drop_flights(const std::vector<std::string>& before, const std::string& text);

// Where ranks part in these flights, which are kept then; "" where all did the same to the end.
std::string parted(const std::vector<Flight>& flights);

// The same World. Where an exchange fails, what its ranks did is kept, and the error says where.
// @param where, token as in Flight
WorldPtr with_flights(WorldPtr world, const std::string& where, const std::string& token = "");

// run_on_threads (thread_world.h). Where it fails and ranks part, the error says in which exchange, and what
// all ranks did is kept.
void run_on_recorded_threads(int64_t n, Patience patience, const std::string& token,
                             const std::function<void(const WorldPtr& world)>& body);

}  // namespace lockstep
