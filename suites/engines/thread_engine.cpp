// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/thread_engine.h"

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/merge.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// What one rank gave.
struct Part {
  EngineResult result;
  Traffic traffic;
};

void place(EngineValue& into, const EngineValue& from, int64_t position) {
  LOCKSTEP_CHECK(into.defined() == from.defined() && (!into.defined() || *into.spec == *from.spec),
                 "[merge] position ", position, " has a value of another Spec than position 0");
  if (into.defined()) into.locals[as_size(position)] = from.locals.at(0);
}

// As one result, by mesh position. Throws Error where ranks part.
EngineResult merged(std::vector<Part> parts) {
  EngineResult all = parts.at(0).result;
  std::vector<HostedTimeline> timelines;
  for (auto& value : all.values) value.locals.assign(value.defined() ? parts.size() : 0, {});
  all.bytes_moved = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    auto& part = parts[p].result;
    const auto position = static_cast<int64_t>(p);
    LOCKSTEP_CHECK(part.values.size() == all.values.size() && part.random_after == all.random_after,
                   "[merge] position ", position,
                   " has other values or another random state than position 0");
    for (size_t v = 0; v < part.values.size(); ++v) place(all.values[v], part.values[v], position);
    all.bytes_moved += part.bytes_moved;
    timelines.push_back({{position}, std::move(part.timeline)});
  }
  all.timeline = merge(timelines);
  return all;
}

}  // namespace

EngineResult run_on_threads(const oracle::Case& c, bool want_timeline, Traffic& traffic) {
  std::vector<Part> parts(as_size(c.mesh.size()));
  lockstep::run_on_threads(c.mesh.size(), [&](const WorldPtr& world) {
    const auto& ranks = c.mesh.ranks();
    auto& part = parts[as_size(std::find(ranks.begin(), ranks.end(), world->hosted()[0]) - ranks.begin())];
    part.result = run_in(world, c, oracle::make_inputs(c), want_timeline, part.traffic);
  });
  for (const auto& part : parts) traffic += part.traffic;
  return merged(std::move(parts));
}

const EngineProfile& ThreadEngine::profile() const {
  return own_profile();
}

EngineResult ThreadEngine::run(const oracle::Case& c, bool want_timeline) {
  Traffic traffic;
  return run_on_threads(c, want_timeline, traffic);
}

}  // namespace lockstep::suites
