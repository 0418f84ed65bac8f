// SPDX-License-Identifier: Apache-2.0
// The fallback behind DispatchKey::Fake: unwrap, decide (cached), redistribute, run on every hosted rank,
// wrap.
#pragma once
#include <cstdint>

namespace lockstep {

struct DispatchCounters {
  int64_t ops = 0;
  int64_t cache_hits = 0;
  int64_t cache_misses = 0;
  int64_t redistributions = 0;  // implicit ones
};
// Of this thread.
DispatchCounters& dispatch_counters();

}  // namespace lockstep
