// SPDX-License-Identifier: Apache-2.0
// GlooGroup: processes that send each other bytes, over libtorch's ProcessGroupGloo. This file and gloo_gang
// alone know c10d.
#pragma once
#include <ATen/core/Tensor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

// Where processes meet: in a file that all of them can open, empty at first; or, without one, in a store at
// an address, which one of them serves, or who started them.
struct MeetingPoint {
  std::string file{};
  std::string host{};
  int64_t port = 0;
  bool serves = false;
  std::string prefix{};  // of this meeting among others there
};

class GlooGroup {
 public:
  // The process ignores SIGPIPE from now on. Throws Error if the other processes do not come in time.
  GlooGroup(const MeetingPoint& at, int64_t process, int64_t processes, std::chrono::milliseconds patience);
  ~GlooGroup();

  // What each process says, by process. All call it alike.
  std::vector<std::string> say(const std::string& name, const std::string& text);
  // Does not wait. Messages to one process arrive in this order; to one that is gone, never.
  void send(int64_t to, std::string bytes);
  // The next message of that process. Throws std::exception once it is gone, or close() was called. One
  // thread for each process may wait.
  at::Tensor receive(int64_t from);
  // What was sent has left, or the process that it was for is gone, or the patience.
  void settle(std::chrono::milliseconds patience);
  // How many pieces of messages have not left yet, and are kept.
  int64_t unsent() const;
  // The process is gone: nobody waits for what was sent to it.
  void forget(int64_t process);
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
