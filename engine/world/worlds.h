// SPDX-License-Identifier: Apache-2.0
// Which Worlds there are. world.h says what a World is.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

namespace lockstep {

class World;
using WorldPtr = std::shared_ptr<World>;

// Hosts all n ranks in the calling thread, in lockstep: no deadlock, no network, deterministic. Their
// tensors are all on `device`.
WorldPtr local_world(int64_t n, c10::Device device = c10::kCPU);

}  // namespace lockstep
