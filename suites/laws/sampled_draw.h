// SPDX-License-Identifier: Apache-2.0
// Random tensors too large to hold, judged by samples: what a few simulated threads write, against what the
// ranks that own those elements draw in closed form.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/layout/layout.h"
#include "engine/stream/random_call.h"
#include "engine/values/spec.h"

namespace lockstep::suites {

// Draws what a rank owns of a call's tensor: the engine's draw_local, or a wrong one.
using DrawOwned = std::function<at::Tensor(const RandomCall& call, const std::vector<IndexList>& owned,
                                           const RandomState& state, const DeviceModel& device)>;
at::Tensor draw_owned(const RandomCall& call, const std::vector<IndexList>& owned, const RandomState& state,
                      const DeviceModel& device);

// Law: each sampled element lies on the rank and at the place that torch.chunk gives it, that rank's Layout
// says so, and it draws there what the simulated thread writes; the generator moves by what the simulated
// launches reserve. `seed` chooses the threads and the elements. Returns what is wrong with the first that
// fails; none if all hold.
// @pre spec has the call's shape, contiguous; its placements are Replicate and Shard
std::optional<std::string> first_wrong_sample(const RandomCall& call, const Spec& spec,
                                              const RandomState& state, const DeviceModel& device,
                                              uint64_t seed, const DrawOwned& draw = draw_owned);

}  // namespace lockstep::suites
