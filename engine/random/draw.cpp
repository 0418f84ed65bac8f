// SPDX-License-Identifier: Apache-2.0
#include "engine/random/draw.h"

#include <utility>

#include "engine/random/random_policy.h"

namespace lockstep {
namespace {

thread_local const Drawing* g_drawing = nullptr;

}  // namespace

PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm) {
  auto& now = generator();
  const bool other_local = g_drawing != nullptr && g_drawing->local;
  const bool other_advance = g_drawing != nullptr && g_drawing->advance;
  PerRank<at::Tensor> locals;
  for (const int64_t p : comm.positions)
    locals.push_back(other_local ? g_drawing->local(call, values, p, now.state, now.device)
                                 : draw_local(call, values, p, now.state, now.device));
  now.state.offset +=
      other_advance ? g_drawing->advance(call, values, now.device) : advance(call, values, now.device);
  return locals;
}

DrawingScope::DrawingScope(const Drawing& drawing) : previous_(std::exchange(g_drawing, &drawing)) {}
DrawingScope::~DrawingScope() {
  g_drawing = previous_;
}

}  // namespace lockstep
