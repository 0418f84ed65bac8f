// SPDX-License-Identifier: Apache-2.0
#include "engine/draw.h"

#include "engine/random_policy.h"

namespace lockstep {

PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm) {
  auto& now = generator();
  PerRank<at::Tensor> locals;
  for (const int64_t p : comm.positions) locals.push_back(draw_local(call, values, p, now.state, now.device));
  now.state.offset += advance(call, values, now.device);
  return locals;
}

}  // namespace lockstep
