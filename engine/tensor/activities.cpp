// SPDX-License-Identifier: Apache-2.0
// What who records is told of ops and redistributions.
#include "engine/tensor/redistribute.h"
#include "engine/tensor/run.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"

namespace lockstep {

static Activity of_op(const Dispatched& d) {
  Activity activity{.kind = ActivityKind::kOp, .name = d.op.schema().name()};
  if (const auto& overload = d.op.schema().overload_name(); !overload.empty())
    activity.name += "." + overload;
  const auto& specs = d.call.operands.specs;
  activity.given.assign(specs.begin(), specs.end());
  return activity;
}

Activity activity_of(const Dispatched& d, const SpecPtr& out) {
  auto activity = of_op(d);
  activity.placed = activity.given;
  activity.outputs = {out};
  return activity;
}

Activity activity_of(Dispatched& d, ActivityLog& log) {
  auto activity = of_op(d);
  activity.placed = d.decision->inputs;
  activity.outputs = d.decision->outputs;
  if (!log.wants_candidates()) return activity;
  auto& known = log.candidates_of(d.hosted->decision);
  if (known == nullptr) known = std::make_shared<const Candidates>(candidates_of(d));
  activity.candidates = known;
  return activity;
}

static std::string along(const Step& step) {
  const auto& mesh = step.from->mesh();
  if (step.mesh_dim < 0) return "all mesh dimensions";
  return mesh.has_names() ? mesh.names()[as_size(step.mesh_dim)] : concat("mesh dimension ", step.mesh_dim);
}

Activity activity_of(const std::vector<const Route*>& routes, bool implicit) {
  Activity activity{.kind = ActivityKind::kRedistribution, .name = "lockstep::redistribute"};
  activity.implicit = implicit;
  for (const auto* route : routes) {
    activity.given.push_back(route->from);
    activity.outputs.push_back(route->to);
    for (const auto& step : route->steps)
      activity.moved.push_back({name(step.kind), along(step), step.bytes});
  }
  return activity;
}

}  // namespace lockstep
