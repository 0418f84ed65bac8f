// SPDX-License-Identifier: Apache-2.0
// The most bytes that tensors allocated by this thread within a scope have held at once.
#pragma once
#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>

namespace lockstep::suites {

// Counts what libtorch's CPU allocator reports, by the interface that its profiler uses.
class PeakMemory {
 public:
  PeakMemory();
  ~PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  // Since the construction or the last call. What is held now counts for the next.
  int64_t take_peak_bytes();

 private:
  struct Counter;
  std::shared_ptr<Counter> counter_;
  c10::DebugInfoGuard guard_;
};

}  // namespace lockstep::suites
