// SPDX-License-Identifier: Apache-2.0
#include "suites/lockstep_engine.h"

#include "engine/comm.h"
#include "engine/dtensor.h"
#include "engine/timeline_log.h"
#include "engine/values/error.h"
#include "engine/values/random_source.h"
#include "oracle/evaluate.h"
#include "oracle/values.h"
#include "suites/counting_world.h"

namespace lockstep::suites {
namespace {

bool any_partial(const oracle::Target& target) {
  return std::any_of(target.placements.begin(), target.placements.end(),
                     [](const Placement& p) { return is_partial(p); });
}

// A whole tensor is cut by the engine; the terms of a Partial are given to it rank by rank.
at::Tensor input_on(const MeshInWorld& mesh, const oracle::Case& c, size_t i) {
  const auto& target = c.placements[i];
  const auto input = oracle::make_input(c, static_cast<int64_t>(i));
  if (!any_partial(target)) return distribute_tensor(input.global, mesh, target.placements, target.order);
  return from_local(input.locals, mesh, target.placements, input.global.sizes().vec(),
                    input.global.strides().vec(), true, target.order);
}

at::Tensor redistributed(const at::Tensor& t, const oracle::Target& target) {
  return redistribute(t, target.placements, target.order);
}

EngineValue value_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (!is_dtensor(tensor)) throw std::logic_error("a value of the program came out as a plain tensor");
  EngineValue value;
  value.spec = std::make_shared<const Spec>(spec(tensor));
  for (const auto& local : local_tensors(tensor)) value.locals.push_back(local.detach());
  return value;
}

}  // namespace

EngineResult LockstepEngine::run(const oracle::Case& c, bool want_timeline) {
  Traffic traffic;
  auto world = counting(local_world(c.mesh.size()), traffic);
  if (decorate_) world = decorate_(std::move(world));
  const MeshInWorld mesh{c.mesh, world, std::make_shared<const Comm>(c.mesh, world)};
  generator().device = c.device;
  manual_seed(c.program.seed);
  std::vector<at::Tensor> inputs;
  for (size_t i = 0; i < c.program.inputs.size(); ++i) inputs.push_back(input_on(mesh, c, i));

  EngineResult result;
  traffic = {};
  std::optional<TimelineScope> scope;
  if (want_timeline) scope.emplace(result.timeline);
  const auto values = oracle::run(c.program, std::move(inputs), redistributed);
  scope.reset();
  result.has_timeline = want_timeline;
  for (const auto& v : values) result.values.push_back(value_of(v));
  result.random_after = generator().state;
  result.bytes_moved = traffic.bytes;
  return result;
}

}  // namespace lockstep::suites
