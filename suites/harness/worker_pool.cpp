// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "engine/values/error.h"
#include "suites/core/spawn.h"
#include "suites/harness/pool_memory.h"

namespace lockstep::suites {
namespace {

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
  Pool(const PoolOptions& options, const std::vector<std::string>& command, const std::string& job,
       const PoolListener& listener);
  ~Pool();
  PoolResult run();

 private:
  void start(int index);
  void read_messages(Worker& worker);
  void reap(int index, int status);
  void kill_if_hung(int index);
  void kill_all();

  const std::vector<std::string>& command_;
  const PoolListener& listener_;
  size_t size_;
  int file_;
  PoolMemory* shared_;
  std::vector<Worker> workers_;
  PoolResult result_;
};

Pool::Pool(const PoolOptions& options, const std::vector<std::string>& command, const std::string& job,
           const PoolListener& listener)
    : command_(command), listener_(listener), size_(PoolMemory::size_without_job(options.jobs) + job.size()) {
  LOCKSTEP_CHECK(options.jobs >= 1 && options.jobs <= kMaxJobs, "[run] --jobs must be 1 to ", kMaxJobs);
  file_ = memfd_create("lockstep pool", MFD_CLOEXEC);
  void* memory = file_ < 0 || ftruncate(file_, static_cast<off_t>(size_)) != 0
                     ? MAP_FAILED
                     : mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED)
    throw Broken(concat("[run] no shared memory of ", size_, " bytes: ", std::strerror(errno),
                        "; raise the limits on memory and on the size of files"));
  shared_ = new (memory) PoolMemory{.options = options, .next = 0, .stop = false, .stopped = false};
  std::uninitialized_value_construct_n(shared_->slots(), options.jobs);
  std::copy(job.begin(), job.end(), shared_->job());
  workers_.resize(static_cast<size_t>(options.jobs));
}

Pool::~Pool() {
  kill_all();
  munmap(shared_, size_);
  close(file_);
}

void Pool::start(int index) {
  auto& worker = workers_[static_cast<size_t>(index)];
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Broken(concat("[run] no pipe to worker ", index, ": ", std::strerror(errno), "; use fewer --jobs"));
  auto& slot = shared_->slots()[index];
  slot.running = -1;
  slot.ended = false;
  const auto place = concat(kPoolVariable, "=", index, " ", file_, " ", ends[1]);
  worker.pid = spawn({.command = command_, .files = {file_, ends[1]}, .variable = place});
  const int error = errno;
  close(ends[1]);
  worker.pipe = ends[0];
  if (worker.pid < 0)
    throw Broken(
        concat("[run] cannot start worker ", index, ": ", std::strerror(error), "; use fewer --jobs"));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
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
      listener_.message(worker.partial);
      worker.partial.clear();
    }
}

void Pool::reap(int index, int status) {
  auto& worker = workers_[static_cast<size_t>(index)];
  read_messages(worker);
  close(worker.pipe);
  worker.pipe = -1;
  worker.pid = -1;
  auto& slot = shared_->slots()[index];
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
    return start(index);
  }
  worker.idle_deaths = 0;
  slot.done.fetch_add(1);
  if (slot.settled) return start(index);
  ++result_.lost;
  int64_t* unsaved = slot.unsaved_numbers;
  slot.unsaved = static_cast<int>(std::remove(unsaved, unsaved + slot.unsaved, number) - unsaved);
  slot.loss = {.number = number, .hung = worker.killed_as_hung, .status = status};
  start(index);
}

void Pool::kill_if_hung(int index) {
  auto& worker = workers_[static_cast<size_t>(index)];
  auto& slot = shared_->slots()[index];
  if (worker.pid < 0 || slot.running < 0 || worker.killed_as_hung) return;
  if (static_cast<double>(now_ns() - slot.beat_ns) * 1e-9 < shared_->options.hang_seconds) return;
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
  const int jobs = shared_->options.jobs;
  for (int i = 0; i < jobs; ++i) start(i);
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
    for (int i = 0; i < jobs; ++i) {
      auto& w = workers_[static_cast<size_t>(i)];
      if (w.pid > 0) {
        read_messages(w);
        kill_if_hung(i);
        int status = 0;
        if (waitpid(w.pid, &status, WNOHANG) == w.pid) reap(i, status);
      }
      alive |= w.pid > 0;
      done += shared_->slots()[i].done;
    }
    listener_.tick(done, shared_->seconds());
  }
  result_.claimed = std::min<int64_t>(shared_->next, shared_->options.cases);
  result_.stopped = shared_->stopped;
  sigaction(SIGINT, &old_int, nullptr);
  sigaction(SIGTERM, &old_term, nullptr);
  return result_;
}

}  // namespace

PoolResult run_pool(const PoolOptions& options, const std::vector<std::string>& command,
                    const std::string& job, const PoolListener& listener) {
  if (called_to_pool())
    throw Broken(concat("[run] a worker was told to work and starts workers of its own: '", command[0],
                        "' must call join_pool where it was started as one"));
  return Pool(options, command, job, listener).run();
}

}  // namespace lockstep::suites
