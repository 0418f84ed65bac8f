// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

#include "engine/values/error.h"
#include "suites/core/heartbeat.h"

namespace lockstep::suites {
namespace {

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What parent and workers share. Written by one worker each, so that a dead worker cannot leave a lock
// behind.
struct Slot {
  std::atomic<int64_t> running;  // number of the case, -1 between cases
  std::atomic<int64_t> beat_ns;
  std::atomic<int64_t> done;
  std::atomic<bool> settled;  // the running case is recorded
  std::atomic<bool> ended;    // the worker leaves by itself, with an exit code that it means
};
constexpr int kMaxJobs = 256;
struct Shared {
  std::atomic<int64_t> next;
  std::atomic<bool> stop;
  Slot slots[kMaxJobs];
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

// In a worker process: where signs of life and say() go.
struct Self {
  Slot* slot = nullptr;
  int pipe = -1;
};
Self self;

volatile sig_atomic_t interrupted = 0;
void on_interrupt(int) {
  interrupted = 1;
}

struct Worker {
  pid_t pid = -1;
  int pipe = -1;
  std::string partial;  // an unfinished message
  bool killed_as_hung = false;
  int idle_deaths = 0;  // deaths with no case running, in a row
};

class Pool {
 public:
  Pool(const PoolOptions& options, const PoolWork& work);
  ~Pool();
  PoolResult run();

 private:
  void spawn(int index, std::optional<Lost> lost);
  [[noreturn]] void worker_main(int index, const std::optional<Lost>& lost);
  void work_loop(int index, const std::optional<Lost>& lost);
  bool may_claim() const;
  void read_messages(Worker& worker);
  void reap(int index, int status);
  void kill_if_hung(int index);
  void kill_all();
  double seconds() const { return static_cast<double>(now_ns() - began_ns_) * 1e-9; }

  const PoolOptions& options_;
  const PoolWork& work_;
  Shared* shared_;
  std::vector<Worker> workers_;
  PoolResult result_;
  int64_t began_ns_ = now_ns();
};

Pool::Pool(const PoolOptions& options, const PoolWork& work) : options_(options), work_(work) {
  LOCKSTEP_CHECK(options.jobs >= 1 && options.jobs <= kMaxJobs, "[run] --jobs must be 1 to ", kMaxJobs);
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Broken(concat("[run] no shared memory: ", std::strerror(errno)));
  shared_ = new (memory) Shared{};
  workers_.resize(static_cast<size_t>(options.jobs));
}

Pool::~Pool() {
  kill_all();
  munmap(shared_, sizeof(Shared));
}

bool Pool::may_claim() const {
  return !shared_->stop && (options_.seconds <= 0 || seconds() < options_.seconds);
}

void Pool::work_loop(int index, const std::optional<Lost>& lost) {
  auto& slot = shared_->slots[index];
  work_.begin(index);
  if (lost) work_.lost(*lost);
  while (may_claim()) {
    const int64_t number = shared_->next.fetch_add(1);
    if (number >= options_.cases) break;
    slot.beat_ns = now_ns();
    slot.settled = false;
    slot.running = number;
    work_.run(number);
    slot.done.fetch_add(1);
    slot.running = -1;
  }
  work_.end();
}

void Pool::worker_main(int index, const std::optional<Lost>& lost) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_DFL);
  for (auto& other : workers_)
    if (other.pipe >= 0) close(other.pipe);
  int code = 0;
  try {
    work_loop(index, lost);
  } catch (const WorkerExit& e) {
    code = e.code;
    say(e.message);
  } catch (const std::exception& e) {
    code = 3;
    say(concat("harness error in worker ", index, ": ", e.what()));
  }
  std::fflush(nullptr);
  self.slot->ended = true;
  _exit(code);
}

void Pool::spawn(int index, std::optional<Lost> lost) {
  auto& worker = workers_[static_cast<size_t>(index)];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Broken(concat("[run] no pipe to worker ", index, ": ", std::strerror(errno), "; use fewer --jobs"));
  auto& slot = shared_->slots[index];
  slot.running = -1;
  slot.ended = false;
  slot.beat_ns = now_ns();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0)
    throw Broken(
        concat("[run] cannot start worker ", index, ": ", std::strerror(errno), "; use fewer --jobs"));
  if (pid == 0) {
    close(ends[0]);
    self = {&slot, ends[1]};
    on_beat([] { self.slot->beat_ns = now_ns(); });
    worker_main(index, lost);
  }
  close(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  worker.pid = pid;
  worker.pipe = ends[0];
  worker.partial.clear();
  worker.killed_as_hung = false;
}

void Pool::read_messages(Worker& worker) {
  char buffer[4096];
  for (ssize_t n; (n = read(worker.pipe, buffer, sizeof buffer)) > 0;)
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] != '\0') {
        worker.partial += buffer[i];
        continue;
      }
      work_.message(worker.partial);
      worker.partial.clear();
    }
}

void Pool::reap(int index, int status) {
  auto& worker = workers_[static_cast<size_t>(index)];
  read_messages(worker);
  close(worker.pipe);
  worker.pipe = -1;
  worker.pid = -1;
  auto& slot = shared_->slots[index];
  const int64_t number = slot.running;
  if (slot.ended && WIFEXITED(status)) {
    if (WEXITSTATUS(status) == 0) return;
    result_.worker_code = WEXITSTATUS(status);
    shared_->stop = true;
    return;
  }
  if (number < 0) {
    if (++worker.idle_deaths >= 3)
      throw Broken(concat("[run] worker ", index, " dies before it begins a case"));
    return spawn(index, std::nullopt);
  }
  worker.idle_deaths = 0;
  slot.done.fetch_add(1);
  if (slot.settled) return spawn(index, std::nullopt);
  ++result_.lost;
  const auto detail = WIFSIGNALED(status)
                          ? concat("signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")
                          : concat("exit code ", WEXITSTATUS(status));
  const bool hung = worker.killed_as_hung;
  spawn(index,
        Lost{number, hung, hung ? concat("no sign of life for ", options_.hang_seconds, " s") : detail});
}

void Pool::kill_if_hung(int index) {
  auto& worker = workers_[static_cast<size_t>(index)];
  auto& slot = shared_->slots[index];
  if (worker.pid < 0 || slot.running < 0 || worker.killed_as_hung) return;
  if (static_cast<double>(now_ns() - slot.beat_ns) * 1e-9 < options_.hang_seconds) return;
  worker.killed_as_hung = true;
  kill(worker.pid, SIGKILL);
}

void Pool::kill_all() {
  for (auto& worker : workers_)
    if (worker.pid > 0) {
      kill(worker.pid, SIGKILL);
      waitpid(worker.pid, nullptr, 0);
      close(worker.pipe);
      worker.pid = -1;
    }
}

PoolResult Pool::run() {
  interrupted = 0;
  struct sigaction act {
  }, old_int{}, old_term{};
  act.sa_handler = on_interrupt;
  sigaction(SIGINT, &act, &old_int);
  sigaction(SIGTERM, &act, &old_term);
  for (int i = 0; i < options_.jobs; ++i) spawn(i, std::nullopt);
  for (bool alive = true; alive;) {
    std::vector<pollfd> waiting;
    for (const auto& w : workers_)
      if (w.pid > 0) waiting.push_back({w.pipe, POLLIN, 0});
    poll(waiting.data(), waiting.size(), 100);
    if (interrupted) {
      result_.interrupted = true;
      shared_->stop = true;
    }
    alive = false;
    int64_t done = 0;
    for (int i = 0; i < options_.jobs; ++i) {
      auto& w = workers_[static_cast<size_t>(i)];
      if (w.pid > 0) {
        read_messages(w);
        kill_if_hung(i);
        int status = 0;
        if (waitpid(w.pid, &status, WNOHANG) == w.pid) reap(i, status);
      }
      alive |= w.pid > 0;
      done += shared_->slots[i].done;
    }
    work_.tick(done, seconds());
  }
  result_.claimed = std::min<int64_t>(shared_->next, options_.cases);
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  return result_;
}

}  // namespace

PoolResult run_pool(const PoolOptions& options, const PoolWork& work) {
  return Pool(options, work).run();
}

void settled() {
  if (self.slot != nullptr) self.slot->settled = true;
}

void say(const std::string& text) {
  if (self.pipe < 0) {
    std::printf("%s\n", text.c_str());
    return;
  }
  const char* begin = text.c_str();
  for (size_t left = text.size() + 1; left > 0;) {
    const ssize_t n = write(self.pipe, begin, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    begin += n;
    left -= static_cast<size_t>(n);
  }
}

}  // namespace lockstep::suites
