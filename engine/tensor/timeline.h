// SPDX-License-Identifier: Apache-2.0
// An op's entry in the timeline, begun before it runs, since it may write to its inputs.
#pragma once
#include "engine/tensor/call.h"
#include "engine/values/timeline.h"

namespace lockstep {

TimelineEntry begin_entry(const Dispatched& d);
// Appends it to the current timeline.
void end_entry(const Dispatched& d, TimelineEntry entry, const std::vector<at::Tensor>& outputs);

}  // namespace lockstep
