// SPDX-License-Identifier: Apache-2.0
// Starts programs: a fork and at once an exec, so that no thread, lock or device context of this process
// lives on in the other. And tells how one ended.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

namespace lockstep::suites {

inline constexpr const char* kThisProgram = "/proc/self/exe";
// This process's own command.
std::vector<std::string> this_command();

struct Spawn {
  std::vector<std::string> command{};  // the path of the program first
  std::vector<int> files{};            // descriptors that it inherits besides the standard ones
  std::string variable{};              // "NAME=VALUE" of its environment, besides ours; may be empty
  unsigned seconds = 0;                // after which SIGALRM ends it; 0: no limit
  int socket = -1;                     // becomes its standard input and output; -1: it has ours
  int errors = -1;                     // becomes its standard error; -1: it has ours
  bool own_group = false;              // it leads a process group; otherwise it is of ours
};
// @returns its process id; -1: there is none, and errno says why. It dies with this process, and a Ctrl-C of
// the terminal is not for it: in our group it ignores SIGINT, in one of its own it is sent none. One that
// cannot be executed ends with code 127.
pid_t spawn(const Spawn& what);

// "signal 11 (Segmentation fault)", "exit code 3": what waitpid said.
std::string how_it_ended(int wait_status);

}  // namespace lockstep::suites
