// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/merge_results.h"

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/merge.h"

namespace lockstep::suites {
namespace {

void place(EngineValue& into, const EngineValue& from, const std::vector<int64_t>& positions) {
  LOCKSTEP_CHECK(into.defined() == from.defined() && (!into.defined() || *into.spec == *from.spec),
                 "[merge] position ", positions.at(0), " has a value of another Spec than position 0");
  if (!into.defined()) return;
  for (size_t i = 0; i < positions.size(); ++i) into.locals.at(as_size(positions[i])) = from.locals.at(i);
}

}  // namespace

EngineResult merge(std::vector<HostedResult> parts) {
  EngineResult all = parts.at(0).result;
  std::vector<HostedTimeline> timelines;
  size_t positions = 0;
  for (const auto& part : parts) positions += part.positions.size();
  for (auto& value : all.values) value.locals.assign(value.defined() ? positions : 0, {});
  all.bytes_moved = 0;
  for (auto& part : parts) {
    const auto& own = part.result;
    LOCKSTEP_CHECK(own.values.size() == all.values.size() && own.random_after == all.random_after &&
                       own.never_waited == all.never_waited && own.acted == all.acted,
                   "[merge] position ", part.positions.at(0),
                   " has other values, another random state, other leaks or rows of a plan that did "
                   "something else than position 0");
    for (size_t v = 0; v < own.values.size(); ++v) place(all.values[v], own.values[v], part.positions);
    all.bytes_moved += own.bytes_moved;
    timelines.push_back({part.positions, std::move(part.result.timeline)});
  }
  all.timeline = lockstep::merge(timelines);
  return all;
}

}  // namespace lockstep::suites
