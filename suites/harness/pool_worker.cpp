// SPDX-License-Identifier: Apache-2.0
// The worker's half of a pool.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "engine/lane/numerics.h"
#include "engine/values/error.h"
#include "suites/core/heartbeat.h"
#include "suites/core/spawn.h"
#include "suites/harness/pool_memory.h"

namespace lockstep::suites {
namespace {

// Where signs of life and say() go.
struct Self {
  PoolMemory* memory = nullptr;
  Slot* slot = nullptr;
  int pipe = -1;
  int again = -1;  // where the running case is listed as unsaved; -1: it runs for the first time
};
Self self;

Lost told(const Loss& loss) {
  const auto how = loss.hung ? concat("no sign of life for ", self.memory->options.hang_seconds, " s")
                             : how_it_ended(loss.status);
  return {loss.number, loss.hung, how, loss.taken};
}

// Of the case that the worker before took along, if it did. It stays in the slot until it is told.
void tell_loss(const PoolWork& work) {
  auto& loss = self.slot->loss;
  if (loss.number < 0) return;
  const auto lost = told(loss);
  loss.taken = true;
  work.lost(lost);
  loss = {};
}

bool may_claim() {
  const auto& pool = *self.memory;
  return !pool.stop && (pool.options.seconds <= 0 || pool.seconds() < pool.options.seconds);
}

void run_one(const PoolWork& work, int64_t number) {
  auto& slot = *self.slot;
  slot.beat_ns = now_ns();
  slot.settled = false;
  slot.running = number;
  work.run(number);
  slot.done.fetch_add(1);
  slot.running = -1;
}

// What the worker before recorded, and took along before it was durable: from the last, so that what is saved
// meanwhile is the end of the list. The rest stays listed until all of it is.
void run_again(const PoolWork& work) {
  auto& slot = *self.slot;
  for (self.again = slot.unsaved - 1; self.again >= 0; --self.again) {
    slot.done.fetch_sub(1);
    run_one(work, slot.unsaved_numbers[self.again]);
  }
  work.save();
  slot.unsaved = 0;
}

void work_loop(const PoolWork& work) {
  work.begin(static_cast<int>(self.slot - self.memory->slots()), self.slot->was_ready);
  // First, for the next loss takes its place.
  tell_loss(work);
  self.slot->was_ready = true;
  work.ready();
  run_again(work);
  while (may_claim()) {
    const int64_t number = self.memory->next.fetch_add(1);
    if (number >= self.memory->options.cases) break;
    run_one(work, number);
  }
  work.save();
  work.leave();
}

// The memory behind the descriptor, `size` bytes; nullptr: that of no pool.
PoolMemory* map(int file, size_t& size) {
  struct stat is {};
  if (fstat(file, &is) != 0 || !S_ISREG(is.st_mode)) return nullptr;
  size = static_cast<size_t>(is.st_size);
  if (size < sizeof(PoolMemory)) return nullptr;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  auto* memory = static_cast<PoolMemory*>(at);
  return at != MAP_FAILED && memory->mark == kPoolMark ? memory : nullptr;
}

}  // namespace

bool called_to_pool() {
  return self.slot != nullptr || std::getenv(kPoolVariable) != nullptr;
}

std::string join_pool() {
  const char* place = std::getenv(kPoolVariable);
  const std::string text = place == nullptr ? "" : place;
  int slot = -1, file = -1, pipe = -1;
  size_t size = 0;
  const bool read = std::sscanf(text.c_str(), "%d %d %d", &slot, &file, &pipe) == 3;
  auto* memory = read && slot >= 0 && fcntl(pipe, F_GETFD) >= 0 ? map(file, size) : nullptr;
  LOCKSTEP_CHECK(
      memory != nullptr && slot < memory->options.jobs, "[worker] ", kPoolVariable, "='", text,
      "' is no place among workers; `lockstep run` and `lockstep replay` start theirs by themselves");
  // What this process starts is not of the pool.
  unsetenv(kPoolVariable);
  close(file);
  fcntl(pipe, F_SETFD, FD_CLOEXEC);
  self = {memory, &memory->slots()[slot], pipe};
  on_beat([] { self.slot->beat_ns = now_ns(); });
  return {memory->job(), size - PoolMemory::size_without_job(memory->options.jobs)};
}

void work_in_pool(const PoolWork& work) {
  default_to_one_thread();  // the workers share the processors: threads of each would wait for each other
  int code = 0;
  try {
    work_loop(work);
  } catch (const WorkerExit& e) {
    code = e.code;
    say(e.message);
  } catch (const std::exception& e) {
    code = 3;
    say(concat("harness error in worker ", self.slot - self.memory->slots(), ": ", e.what()));
  }
  std::fflush(nullptr);
  self.slot->ended = true;
  _exit(code);
}

void settled(bool saved) {
  if (self.slot == nullptr) return;
  auto& slot = *self.slot;
  if (slot.running < 0) {
    slot.loss = {};
    return;
  }
  if (!saved && self.again >= 0) return;  // it stays listed
  if (!saved) slot.unsaved_numbers[slot.unsaved] = slot.running;
  slot.unsaved = saved ? std::max(self.again, 0) : slot.unsaved + 1;
  slot.settled = true;
}

void stop_pool() {
  if (self.memory == nullptr) return;
  self.memory->stopped = true;
  self.memory->stop = true;
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
