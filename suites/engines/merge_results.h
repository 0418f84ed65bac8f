// SPDX-License-Identifier: Apache-2.0
// Results of threads, or processes, that host some positions of the mesh each, as the one result that a
// process which hosts all of them would have given.
#pragma once
#include "suites/core/engine_under_test.h"
#include "suites/engines/counting_world.h"

namespace lockstep::suites {

struct HostedResult {
  std::vector<int64_t> positions;  // of the mesh, in the order of the locals
  EngineResult result;
  Traffic traffic;
};

// Throws Error where ranks part.
EngineResult merge(std::vector<HostedResult> parts);

}  // namespace lockstep::suites
