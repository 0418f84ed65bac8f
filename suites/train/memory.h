// SPDX-License-Identifier: Apache-2.0
// The most bytes that tensors allocated by this thread on one type of device within a scope have held at
// once.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

namespace lockstep::suites {

// Counts what libtorch's allocators report, by the interface that its profiler uses.
class PeakMemory {
 public:
  explicit PeakMemory(c10::DeviceType type = c10::kCPU) : counter_(std::make_shared<Counter>(type)) {}
  // Since the construction or the last call. What is held now counts for the next.
  int64_t take_peak_bytes() { return std::exchange(counter_->peak, counter_->held); }

 private:
  struct Counter : c10::MemoryReportingInfoBase {
    explicit Counter(c10::DeviceType t) : type(t) {}
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
      if (device.type() != type) return;
      held += size;
      peak = std::max(peak, held);
    }
    bool memoryProfilingEnabled() const override { return true; }

    c10::DeviceType type;
    int64_t held = 0, peak = 0;
  };
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, counter_};
};

}  // namespace lockstep::suites
