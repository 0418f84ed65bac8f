// SPDX-License-Identifier: Apache-2.0
// Random ops on DTensors: the hosted ranks' parts of one draw from the thread's generator.
#pragma once
#include <functional>

#include "engine/stream/random_source.h"
#include "engine/values/per_rank.h"
#include "engine/values/spec.h"
#include "engine/world/comm.h"

namespace lockstep {

// @pre values is not Partial. @post locals hold the elements that `values` places there of the single
// device's tensor (or, under another policy, what that policy draws); generator() has advanced as the policy
// says, once.
PerRank<at::Tensor> draw(const RandomCall& call, const Spec& values, const Comm& comm);

// Another way to draw, in place of the policy's: what the rank at a position draws from a state, and how far
// a call moves the offset. An empty function is the policy's. For planted faults.
struct Drawing {
  std::function<at::Tensor(const RandomCall&, const Spec&, int64_t position, const RandomState&,
                           const DeviceModel&)>
      local;
  std::function<uint64_t(const RandomCall&, const Spec&, const DeviceModel&)> advance;
};

// While alive, DTensors of this thread draw in this way.
class DrawingScope {
 public:
  explicit DrawingScope(const Drawing& drawing);
  ~DrawingScope();
  DrawingScope(const DrawingScope&) = delete;
  DrawingScope& operator=(const DrawingScope&) = delete;

 private:
  const Drawing* previous_;
};

}  // namespace lockstep
