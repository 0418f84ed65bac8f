// SPDX-License-Identifier: Apache-2.0
// Records what the engine does on this thread into a Timeline, digests included.
#pragma once
#include <span>

#include "engine/tensor/dtensor_impl.h"
#include "engine/values/timeline.h"

namespace lockstep {

// While alive, every dispatched op and redistribution of this thread is appended to `timeline`.
class TimelineScope {
 public:
  explicit TimelineScope(Timeline& timeline);
  ~TimelineScope();
  TimelineScope(const TimelineScope&) = delete;
  TimelineScope& operator=(const TimelineScope&) = delete;

 private:
  Timeline* previous_;
};

// Null while nothing is recorded on this thread.
Timeline* current_timeline();
// Suspends recording on this thread, for ops that are part of one already logged.
class TimelinePause {
 public:
  TimelinePause();
  ~TimelinePause();
  TimelinePause(const TimelinePause&) = delete;
  TimelinePause& operator=(const TimelinePause&) = delete;

 private:
  Timeline* previous_;
};

// A digest for each hosted local; no digests for an undefined tensor.
TensorRecord record(const at::Tensor& dtensor);

}  // namespace lockstep
