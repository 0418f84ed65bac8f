// SPDX-License-Identifier: Apache-2.0
// Child processes for tests: run something under other rights or limits, or kill it at a random moment.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

namespace lockstep::dashboard::testing {

// The exit status of the action in a forked child; 255 if it threw, 256 + signal if it was killed.
inline int in_child(const std::function<int()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(action());
    } catch (...) {
      _exit(255);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

// Runs the action in a forked child and kills it with SIGKILL after so many microseconds, unless it ended
// before.
inline void kill_after(unsigned microseconds, const std::function<void()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    action();
    _exit(0);
  }
  usleep(microseconds);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace lockstep::dashboard::testing
