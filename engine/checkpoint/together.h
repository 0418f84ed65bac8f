// SPDX-License-Identifier: Apache-2.0
// What all processes of a World do, or none.
#pragma once
#include <functional>

#include "engine/world/world.h"

namespace lockstep::dcp {

// Runs it in every process, and returns when all have. Throws in all of them if it threw in one: what it
// threw there, and elsewhere Error that names the rank. What is no Error becomes one. @param world null: this
// process is alone
void together(const WorldPtr& world, const std::function<void()>& act);

// The greatest that a process says.
int64_t greatest(const WorldPtr& world, int64_t mine);
// Whether all say the same.
bool is_same(const WorldPtr& world, const std::string& mine);

}  // namespace lockstep::dcp
