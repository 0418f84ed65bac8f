// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/timeline_log.h"

#include "engine/values/digest.h"

namespace lockstep {
namespace {
thread_local Timeline* g_timeline = nullptr;
}

TimelineScope::TimelineScope(Timeline& timeline) : previous_(g_timeline) {
  g_timeline = &timeline;
}
TimelineScope::~TimelineScope() {
  g_timeline = previous_;
}

Timeline* current_timeline() {
  return g_timeline;
}

TimelinePause::TimelinePause() : previous_(g_timeline) {
  g_timeline = nullptr;
}
TimelinePause::~TimelinePause() {
  g_timeline = previous_;
}

TensorRecord record(const at::Tensor& tensor) {
  const auto* impl = dtensor_impl(tensor);
  return impl == nullptr ? TensorRecord{} : record(impl->spec(), impl->locals());
}

}  // namespace lockstep
