// SPDX-License-Identifier: Apache-2.0
#include "engine/random/draw.h"

#include "engine/random/random_policy.h"

namespace lockstep {

at::Tensor local_by_policy(const RandomCall& call, const Spec& spec, int64_t position,
                           const RandomState& state, const DeviceModel& device) {
  return draw_local(call, spec, position, state, device);
}
uint64_t advance_by_policy(const RandomCall& call, const Spec& spec, const DeviceModel& device) {
  return advance(call, spec, device);
}

const Drawing& drawing() {
  static const Drawing by_policy;
  const auto* given = current_context()->drawing;
  return given == nullptr ? by_policy : *given;
}

PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm) {
  auto& now = generator();
  const auto& how = drawing();
  PerRank<at::Tensor> locals;
  for (const int64_t p : comm.positions) locals.push_back(how.local(call, values, p, now.state, now.device));
  now.state.offset += how.advance(call, values, now.device);
  return locals;
}

}  // namespace lockstep
