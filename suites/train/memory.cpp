// SPDX-License-Identifier: Apache-2.0
#include "suites/train/memory.h"

#include <c10/core/Allocator.h>

#include <algorithm>

namespace lockstep::suites {

struct PeakMemory::Counter : c10::MemoryReportingInfoBase {
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device) override {
    held += size;
    peak = std::max(peak, held);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t held = 0, peak = 0;
};

PeakMemory::PeakMemory()
    : counter_(std::make_shared<Counter>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counter_) {}

PeakMemory::~PeakMemory() = default;

int64_t PeakMemory::take_peak_bytes() {
  const int64_t peak = counter_->peak;
  counter_->peak = counter_->held;
  return peak;
}

}  // namespace lockstep::suites
