// SPDX-License-Identifier: Apache-2.0
// Team: those that host the ranks of a training. All of them run the same program, in the same order, each in
// the World that hosts its ranks; the one that hosts rank 0 leads: it measures, decides, tells and stores.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "engine/values/per_rank.h"
#include "engine/world/world.h"

namespace lockstep::suites {

struct Team {
  using Body = std::function<void(const WorldPtr& world)>;
  // Runs `body` in the World of n ranks: in each thread, or process, of the team that hosts some of them.
  // A null World: this thread hosts all. Throws what body throws, RankLost where a process is gone, and
  // NoProcesses where they do not meet.
  std::function<void(int64_t n, const Body& body)> in_world = [](int64_t, const Body& body) {
    body(nullptr);
  };
  bool leads = true;     // this process does
  bool in_turn = false;  // one World at a time: the processes run them in one order
};

// "local", "thread" or "gloo". Of "gloo": as many processes as `ranks`, this one and others that run its own
// command, from the first World on; or, where a launcher started this one and `ranks` is 0, its processes.
// @param patience how long a rank waits for another before it calls it lost: while a leader judges a step, or
// trains what it compares with, the others wait
Team make_team(const std::string& world, int64_t ranks, std::chrono::seconds patience);

// Whether this thread hosts rank 0.
bool leads(const WorldPtr& world);
// What the leader has decided, in every thread and process; what the others say is not asked.
bool decided(const WorldPtr& world, bool mine);
// Whether any of them says so.
bool anyone(const WorldPtr& world, bool mine);
// The locals of every position of the mesh, where this thread leads; where it does not, those that it hosts.
PerRank<at::Tensor> gathered(const at::Tensor& dtensor);

}  // namespace lockstep::suites
