// SPDX-License-Identifier: Apache-2.0
#include "suites/core/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "engine/values/error.h"

namespace lockstep::suites {
namespace {

char* word(const std::string& text) {
  return const_cast<char*>(text.c_str());  // execve changes nothing
}

}  // namespace

std::vector<std::string> this_command() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> command;
  for (std::string one; std::getline(words, one, '\0');) command.push_back(one);
  command.at(0) = kThisProgram;
  return command;
}

pid_t spawn(const Spawn& what) {
  std::vector<char*> arguments, environment;
  for (const auto& text : what.command) arguments.push_back(word(text));
  arguments.push_back(nullptr);
  if (!what.variable.empty()) environment.push_back(word(what.variable));
  for (char** v = environ; *v != nullptr; ++v) environment.push_back(*v);
  environment.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child != 0) return child;
  // From here on async-signal-safe calls alone: another thread may have held any lock.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // died before it was asked to take us along
  if (what.own_group) setpgid(0, 0);
  signal(SIGINT, what.own_group ? SIG_DFL : SIG_IGN);
  if (what.socket >= 0) {
    dup2(what.socket, STDIN_FILENO);
    dup2(what.socket, STDOUT_FILENO);
  }
  if (what.errors >= 0) dup2(what.errors, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int file : what.files) fcntl(file, F_SETFD, 0);
  alarm(what.seconds);
  execve(arguments[0], arguments.data(), environment.data());
  _exit(127);
}

std::string how_it_ended(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return concat("exit code ", WEXITSTATUS(wait_status));
  return concat("signal ", WTERMSIG(wait_status), " (", strsignal(WTERMSIG(wait_status)), ")");
}

}  // namespace lockstep::suites
