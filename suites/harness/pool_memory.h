// SPDX-License-Identifier: Apache-2.0
// What the parent and the workers of a pool share: a file in memory, with a slot for each worker and the
// job's text behind it. It is as small as it can be: a limit on the size of files is one on it, too.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

#include "suites/harness/worker_pool.h"

namespace lockstep::suites {

inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What a worker took along: number -1 is nothing.
struct Loss {
  int64_t number = -1;
  bool hung = false;
  int status = 0;      // of waitpid
  bool taken = false;  // a worker has begun to tell of it
};

// Written by one worker each, so that a dead worker cannot leave a lock behind.
struct Slot {
  std::atomic<int64_t> running;  // number of the case, -1 between cases
  std::atomic<int64_t> beat_ns;
  std::atomic<int64_t> done;
  std::atomic<bool> settled;    // the running case is recorded; if it was before, it is durable now
  std::atomic<bool> was_ready;  // a worker of this place
  std::atomic<bool> ended;      // the worker leaves by itself, with an exit code that it means
  Loss loss;                    // until it is told; the parent writes it while no worker is here
  std::atomic<int> unsaved;     // how many are recorded and not yet durable
  int64_t unsaved_numbers[kMostUnsaved];
};

inline constexpr int kMaxJobs = 256;
inline constexpr uint64_t kPoolMark = 0x6c6f6f7020736b63;
struct PoolMemory {
  uint64_t mark = kPoolMark;
  PoolOptions options{};
  int64_t began_ns = now_ns();
  std::atomic<int64_t> next;
  std::atomic<bool> stop;     // no case is claimed any more
  std::atomic<bool> stopped;  // because a worker said so

  double seconds() const { return static_cast<double>(now_ns() - began_ns) * 1e-9; }
  Slot* slots() { return reinterpret_cast<Slot*>(this + 1); }
  char* job() { return reinterpret_cast<char*>(slots() + options.jobs); }
  static size_t size_without_job(int jobs) {
    return sizeof(PoolMemory) + static_cast<size_t>(jobs) * sizeof(Slot);
  }
};
static_assert(std::atomic<int64_t>::is_always_lock_free && sizeof(PoolMemory) % alignof(Slot) == 0);

// In a worker's environment: "SLOT MEMORY PIPE", its place and two open files.
inline constexpr const char* kPoolVariable = "LOCKSTEP_POOL";

}  // namespace lockstep::suites
