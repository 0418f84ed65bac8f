// SPDX-License-Identifier: Apache-2.0
// What follows from a decision for the ranks that this process hosts, so that a cached op computes no layout.
#pragma once
#include "engine/ops/decide.h"
#include "engine/values/per_rank.h"
#include "engine/world/comm.h"

namespace lockstep {

// What the local tensor of an output looks like on one hosted rank.
struct LocalForm {
  std::vector<int64_t> shape, stride;
};

struct Hosted {
  std::shared_ptr<const Decision> decision;
  std::vector<int64_t> positions;
  std::vector<PerRank<LocalForm>> outputs;  // [output]; of an undefined one nothing
};
using HostedPtr = std::shared_ptr<const Hosted>;

// @post outputs[j][r] is the form of output j on the rank at comm.positions[r].
HostedPtr host(std::shared_ptr<const Decision> decision, const Comm& comm);

}  // namespace lockstep
