// SPDX-License-Identifier: Apache-2.0
// What tensors allocate on one type of device, in this thread, within a scope.
#pragma once
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace lockstep::suites {

// What libtorch's allocators report, by the interface that its profiler uses: bytes that are allocated, above
// 0, or given back, below.
class MemoryReports {
 public:
  MemoryReports(c10::DeviceType type, std::function<void(int64_t bytes)> changed)
      : guard_(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Hook>(type, std::move(changed))) {}

 private:
  struct Hook : c10::MemoryReportingInfoBase {
    Hook(c10::DeviceType t, std::function<void(int64_t)> f) : type(t), changed(std::move(f)) {}
    void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
      if (device.type() == type) changed(size);
    }
    bool memoryProfilingEnabled() const override { return true; }

    const c10::DeviceType type;
    const std::function<void(int64_t)> changed;
  };
  c10::DebugInfoGuard guard_;
};

// The most bytes that have been held at once.
class PeakMemory {
 public:
  explicit PeakMemory(c10::DeviceType type = c10::kCPU)
      : reports_(type,
                 [seen = seen_](int64_t bytes) { seen->peak = std::max(seen->peak, seen->held += bytes); }) {}
  // Since the construction or the last call. What is held now counts for the next.
  int64_t take_peak_bytes() { return std::exchange(seen_->peak, seen_->held); }

 private:
  struct Seen {
    int64_t held = 0, peak = 0;
  };
  const std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();  // threads of autograd keep the hook
  MemoryReports reports_;
};

// The bytes of each allocation, in their order. A CUDA allocator gives more than it is asked for.
class Allocations {
 public:
  explicit Allocations(c10::DeviceType type = c10::kCPU)
      : reports_(type, [seen = bytes_](int64_t bytes) {
          if (bytes > 0) seen->push_back(bytes);
        }) {}
  const std::vector<int64_t>& bytes() const { return *bytes_; }

 private:
  const std::shared_ptr<std::vector<int64_t>> bytes_ = std::make_shared<std::vector<int64_t>>();
  MemoryReports reports_;
};

}  // namespace lockstep::suites
