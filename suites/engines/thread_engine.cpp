// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/thread_engine.h"

#include "engine/values/as_size.h"
#include "engine/world/flight_files.h"
#include "engine/world/world.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/merge_results.h"

namespace lockstep::suites {

EngineResult run_on_threads(const oracle::Case& c, bool want_timeline, Traffic& traffic, Patience patience) {
  std::vector<HostedResult> parts(as_size(c.mesh.size()));
  const auto one_rank = [&](const WorldPtr& world) {
    const auto& ranks = c.mesh.ranks();
    const int64_t position = std::find(ranks.begin(), ranks.end(), world->hosted()[0]) - ranks.begin();
    if (position == c.mesh.size()) return;
    auto& part = parts[as_size(position)];
    part.positions = {position};
    part.result = run_hosted(world, c, want_timeline, part.traffic);
  };
  run_on_recorded_threads(least_world(c.mesh), patience, oracle::to_token(c), one_rank);
  for (const auto& part : parts) traffic += part.traffic;
  return merge(std::move(parts));
}

const EngineProfile& ThreadEngine::profile() const {
  return world_profile();
}

EngineResult ThreadEngine::run(const oracle::Case& c, bool want_timeline) {
  Traffic traffic;
  return run_on_threads(c, want_timeline, traffic, patience_);
}

}  // namespace lockstep::suites
