// SPDX-License-Identifier: Apache-2.0
// WorkerPool: runs numbered cases in worker processes, each a program that is started anew. A crash, a hang
// or a kill costs the case that was running and nothing else: its number is handed to the worker that takes
// the place, which records it. Knows nothing of suites.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::suites {

struct PoolOptions {
  int jobs = 1;
  int64_t cases = 0;          // numbers 0 .. cases-1, claimed in order
  double seconds = 0;         // no case is claimed after this time; 0: no limit
  double hang_seconds = 120;  // without a beat for this long, a worker is killed
};

struct PoolListener {
  std::function<void(int64_t done, double seconds)> tick;
  std::function<void(const std::string& text)> message;
};

struct PoolResult {
  int64_t claimed = 0;       // the prefix 0 .. claimed-1 was run or lost
  bool interrupted = false;  // by SIGINT or SIGTERM; running cases were finished
  bool stopped = false;      // by a worker, stop_pool()
  int worker_code = 0;       // of a worker that ended with an exit code of its own; the others were stopped
  int64_t lost = 0;
};

// Runs `command` (the path of a program first) as each worker, which must call join_pool, then work_in_pool.
// A worker may not call it: throws Broken, so that a program that does not know of workers cannot multiply.
// @post every claimed case was run to its end exactly once, or given to lost() until that returned, exactly
// once. Workers die with the parent.
PoolResult run_pool(const PoolOptions& options, const std::vector<std::string>& command,
                    const std::string& job, const PoolListener& listener);

// A case that took its process along.
struct Lost {
  int64_t number = 0;
  bool hung = false;   // killed by the watchdog; otherwise the process died by itself or was killed
  std::string detail;  // "signal 11 (Segmentation fault)"
  bool again = false;  // the process that was told of it before died of that
};

struct PoolWork {
  // @param again another was ready in this place, and is lost
  std::function<void(int worker, bool again)> begin;
  std::function<void()> ready = [] {};  // before the first case; what was lost is told
  std::function<void(int64_t number)> run;
  std::function<void(const Lost& lost)> lost;
  std::function<void()> save;           // makes durable what was recorded
  std::function<void()> leave = [] {};  // the last: the process ends without destructors
};

// This process was started as a worker.
bool called_to_pool();
// @returns the job of its pool. Throws Error if it was not started as a worker.
std::string join_pool();
// Claims and runs cases until there are none, and ends the process. libtorch computes in one thread, unless
// OMP_NUM_THREADS says otherwise. @pre join_pool()
[[noreturn]] void work_in_pool(const PoolWork& work);

// So many recorded cases may wait to become durable.
inline constexpr int kMostUnsaved = 256;
// In a worker: the running case is recorded, or the lost one; should the process die from here on, the case
// is not lost, nor told once more. Unless it is `saved`, and with it all before it, the worker that takes the
// place runs it again, and it is lost if it takes that one along before it is saved.
void settled(bool saved);
// In a worker: no worker of the pool claims another case.
void stop_pool();
// In a worker: sends a line to the parent's message(). Elsewhere: prints to stdout.
void say(const std::string& text);
// Thrown by begin, run, lost or end to end the whole pool with this code.
struct WorkerExit {
  int code = 0;
  std::string message;
};

}  // namespace lockstep::suites
