// SPDX-License-Identifier: Apache-2.0
// Records what the engine does into a Timeline, digests included.
#pragma once
#include <span>

#include "engine/tensor/dtensor_impl.h"
#include "engine/values/timeline.h"

namespace lockstep {

// While alive, every dispatched op and redistribution is appended to `timeline`. On all ranks or on none:
// what is recorded goes by rules, which may move other bytes than a bypass (bypass.cpp).
struct TimelineScope : Within<Timeline*> {
  explicit TimelineScope(Timeline& timeline) : Within(&Context::timeline, &timeline) {}
};
// Null while nothing is recorded.
Timeline* current_timeline();

// For whoever asks what is read (Context::given).
void note_read(const at::Tensor& dtensor);

// Of a DTensor that becomes plain: an entry that has no results.
void log_read(const char* op, const at::Tensor& dtensor);

// Of a cast that ran outside of dispatch, as the op that it stands for.
void log_cast(const at::Tensor& from, const at::Tensor& to, bool implicit);

// A digest for each hosted local; no digests for an undefined tensor.
TensorRecord record(const at::Tensor& dtensor);

}  // namespace lockstep
