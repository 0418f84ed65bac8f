// SPDX-License-Identifier: Apache-2.0
// Which op asks for what is exchanged, for those who look at exchanges: within one operator, so that it is
// the thread's and no Context's.
#pragma once
#include <utility>

namespace lockstep {

// While alive, an op of this name, a literal or libtorch's own, asks.
class Asking {
 public:
  explicit Asking(const char* op) : before_(std::exchange(now(), op)) {}
  ~Asking() { now() = before_; }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  static const char*& now() {
    thread_local const char* op = "";
    return op;
  }

 private:
  const char* before_;
};

}  // namespace lockstep
