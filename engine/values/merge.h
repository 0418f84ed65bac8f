// SPDX-License-Identifier: Apache-2.0
// Timelines of processes, or threads, that host some positions of the mesh each, as the one timeline that a
// process which hosts all of them would have written.
#pragma once
#include <vector>

#include "engine/values/timeline.h"

namespace lockstep {

struct HostedTimeline {
  std::vector<int64_t> positions;  // of the mesh, in the order of the digests
  Timeline timeline;
};

// @post each record has a digest for each position of its mesh. Throws Error that names the entry and two
// positions where they did different things: another op, other arguments, Specs, orders or offsets.
Timeline merge(const std::vector<HostedTimeline>& parts);

}  // namespace lockstep
