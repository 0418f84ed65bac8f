// SPDX-License-Identifier: Apache-2.0
#include "engine/draw.h"

#include "engine/random.h"
#include "engine/layout.h"

namespace lockstep {

PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm) {
  auto& now = generator();
  PerRank<at::Tensor> locals;
  for (const int64_t p : comm.positions) {
    const auto owned = owned_by(values, p);
    std::vector<int64_t> shape;
    for (const auto& list : owned) shape.push_back(length(list));
    locals.push_back(draw_local(call, owned, local_stride(values, shape), now.state, now.device));
  }
  now.state.offset += advance(call, now.device);
  return locals;
}

}  // namespace lockstep
