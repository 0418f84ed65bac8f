// SPDX-License-Identifier: Apache-2.0
// What those that host ranks of a World, threads or processes, say to the one that hosts rank 0, and it to
// them. All of them call each of these at the same place of their program. A null World: this thread hosts
// every rank.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "engine/world/worlds.h"

namespace lockstep::debug {

// Whether this thread hosts rank 0.
bool leads(const WorldPtr& world);
bool is_alone(const WorldPtr& world);
// What the one that leads says; what the others would is not asked.
std::string told(const WorldPtr& world, const std::string& words);
// What each of them says, in the order of their ranks, where this thread leads; elsewhere nothing.
std::vector<std::string> collected(const WorldPtr& world, const std::string& words);
// The local tensor at a position of the mesh, where this thread leads; elsewhere undefined. @pre the position
// exists
at::Tensor local_at(const at::Tensor& dtensor, int64_t position);

}  // namespace lockstep::debug
