// SPDX-License-Identifier: Apache-2.0
// Each test states which fault it would catch.
#include "suites/core/spawn.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

namespace lockstep::suites {
namespace {

struct Seen {
  std::string heard;  // what it read from its standard input, and wrote
  pid_t self = 0, group = 0;
  bool ignores_interrupt = false;
  std::string end;
};

// A process that says what it is, to a socket.
Seen see(bool own_group) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const pid_t child = spawn({.command = {"/bin/cat", "-", "/proc/self/stat", "/proc/self/status"},
                             .socket = ends[1],
                             .own_group = own_group});
  close(ends[1]);
  EXPECT_EQ(write(ends[0], "hello\n", 6), 6);
  shutdown(ends[0], SHUT_WR);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);

  Seen seen;
  seen.end = how_it_ended(status);
  std::istringstream words(text);
  std::string name, state, parent;
  words >> seen.heard >> seen.self >> name >> state >> parent >> seen.group;
  EXPECT_EQ(seen.self, child);
  const auto ignored = text.substr(text.find("SigIgn:") + 7);
  seen.ignores_interrupt = (std::stoull(ignored, nullptr, 16) >> (SIGINT - 1) & 1) != 0;
  return seen;
}

// Catches: a worker that a Ctrl-C ends before its case; an engine that cannot be ended with what it started,
// or that inherits a worker's deafness; words that go elsewhere than to the socket.
TEST(Spawn, AProcessIsOfOurGroupOrLeadsOne) {
  const auto before = signal(SIGINT, SIG_DFL);
  const auto ours = see(false);
  EXPECT_EQ(ours.heard, "hello");
  EXPECT_EQ(ours.group, getpgrp());
  EXPECT_TRUE(ours.ignores_interrupt);
  signal(SIGINT, SIG_IGN);
  const auto own = see(true);
  EXPECT_EQ(own.heard, "hello");
  EXPECT_EQ(own.group, own.self);
  EXPECT_FALSE(own.ignores_interrupt);
  signal(SIGINT, before);
  EXPECT_EQ(own.end, "exit code 0");
}

// Catches: an end told as another; a limit of time that does not hold.
TEST(Spawn, SaysHowAProcessEnded) {
  const auto end = [](Spawn what) {
    int status = 0;
    waitpid(spawn(what), &status, 0);
    return how_it_ended(status);
  };
  EXPECT_EQ(end({.command = {"/bin/sh", "-c", "exit 3"}}), "exit code 3");
  EXPECT_EQ(end({.command = {"/bin/sh", "-c", "kill -9 $$"}}), "signal 9 (Killed)");
  EXPECT_EQ(end({.command = {"/bin/sleep", "60"}, .seconds = 1}), "signal 14 (Alarm clock)");
  EXPECT_EQ(end({.command = {"/nosuch"}}), "exit code 127");
}

}  // namespace
}  // namespace lockstep::suites
