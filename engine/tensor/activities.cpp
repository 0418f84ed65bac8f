// SPDX-License-Identifier: Apache-2.0
// What who records is told of ops and redistributions.
#include "engine/tensor/redistribute.h"
#include "engine/tensor/run.h"

namespace lockstep {

Activity activity_of(Dispatched& d, ActivityLog& log) {
  Activity activity{.kind = ActivityKind::kOp, .name = d.op.schema().name()};
  if (const auto& overload = d.op.schema().overload_name(); !overload.empty())
    activity.name += "." + overload;
  const auto& specs = d.call.operands.specs;
  activity.given.assign(specs.begin(), specs.end());
  activity.placed = d.decision->inputs;
  activity.outputs = d.decision->outputs;
  if (!log.wants_candidates()) return activity;
  auto& known = log.candidates_of(d.hosted->decision);
  if (known == nullptr) known = std::make_shared<const Candidates>(candidates_of(d));
  activity.candidates = known;
  return activity;
}

Activity activity_of(const Route& route, bool implicit) {
  Activity activity{.kind = ActivityKind::kRedistribution, .name = "lockstep::redistribute"};
  activity.implicit = implicit;
  activity.given.push_back(route.from);
  activity.outputs.push_back(route.to);
  for (const auto& step : route.steps) activity.moved.push_back({name(step.kind), step.mesh_dim, step.bytes});
  return activity;
}

}  // namespace lockstep
