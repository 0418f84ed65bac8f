// SPDX-License-Identifier: Apache-2.0
// C10dWorld: ranks in several processes, over a process group of libtorch's c10d. A world of n ranks over P
// processes: each hosts a block of them, as long as those of the others or by one longer.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "engine/world/board.h"
#include "engine/world/gloo_group.h"

namespace lockstep {

// One of the processes that meet.
struct Seat {
  int64_t process = 0, processes = 1;
  MeetingPoint at;
  std::string where;  // "process 4711 on one, log /tmp/rank-0.log": what errors elsewhere call it
  Patience patience{}, to_meet{};                    // above 0
  std::function<void(std::string& message)> wire{};  // does something to each message that leaves; for tests
};

// "process 4711 on one": its number and its host's name.
std::string this_process();

// This process's among those that torchrun, mpirun or srun started; none: none of them did. Throws Error that
// says what the environment lacks.
std::optional<Seat> launched_seat();
// How many processes a launcher says that it started; 0: there is none.
int64_t launched_processes();

// The ranks that the process hosts, ascending.
std::vector<int64_t> hosted_ranks(int64_t n, int64_t processes, int64_t process);

// The processes, connected: they run one World after the other.
class Processes {
 public:
  // Throws Error if the others do not come.
  explicit Processes(Seat seat);
  ~Processes();

  // Runs `body` with the World of n ranks that has this number: in all processes that host ranks of it the
  // same, and above those of the Worlds before. @pre this one hosts some. Throws what body throws; the others
  // are then told that these ranks have ended.
  void run(int64_t number, int64_t n, const std::function<void(const WorldPtr& world)>& body);
  // Whether every other process can be heard.
  bool connected() const;
  // The same in two halves: the World, and that its ranks here have ended.
  WorldPtr begin(int64_t number, int64_t n);
  void end(int64_t number, int64_t n, const std::string& why);

  // Words beside the Worlds: what one process says to another arrives in this order. `hear` throws RankLost
  // once that process is gone, or the patience.
  void say(int64_t process, const std::string& words);
  // Waits until what was said has left, or its process is gone, or the patience: to be called before the end.
  void settle();
  std::string hear(int64_t process, Patience patience);
  // Nothing waits any more for what this process should take.
  void give_up(int64_t process);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// world_conformance of a World of one rank a process: every collective that is used, in every dtype. To be
// run first, by all of them; takes the World of number 0. @returns "" or what is wrong.
std::string self_test(Processes& processes, int64_t n);

}  // namespace lockstep
