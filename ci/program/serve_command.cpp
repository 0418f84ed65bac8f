// SPDX-License-Identifier: Apache-2.0
// lockstep serve
#include <csignal>
#include <cstdio>
#include <thread>

#include "ci/program/commands.h"
#include "dashboard/pages/site.h"
#include "dashboard/serve/server.h"
#include "engine/values/error.h"

namespace lockstep::program {

namespace {

struct Flags {
  std::vector<std::string> databases;
  std::string host = "127.0.0.1";
  int port = 8642;
};

// Until the first of these signals; a thread that is started after this waits for none of them.
sigset_t block_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return set;
}

int serve(const Flags& flags) {
  const sigset_t signals = block_signals();
  dashboard::Site site(flags.databases);
  dashboard::Server server(site);
  int port = 0;
  try {
    port = server.bind(flags.host, flags.port);
  } catch (const dashboard::CannotListen& e) {
    throw Error(e.what());
  }
  if (!dashboard::is_loopback(flags.host))
    std::fprintf(
        stderr,
        "lockstep: %s is not this machine alone: whoever reaches it reads these databases; there is no "
        "password\n",
        flags.host.c_str());
  const std::string host = flags.host.find(':') == std::string::npos ? flags.host : "[" + flags.host + "]";
  for (const std::string& name : site.names())
    std::printf("http://%s:%d/db/%s/\n", host.c_str(), port, name.c_str());
  std::fflush(stdout);
  std::thread listening([&] {
    server.serve();
    kill(getpid(), SIGTERM);  // it ended by itself: wakes the wait below
  });
  int signal = 0;
  sigwait(&signals, &signal);
  server.stop();
  listening.join();
  return 0;
}

}  // namespace

void add_serve(CLI::App& app, Chosen& chosen) {
  auto [command, flags] =
      add_command(app, chosen, "serve", "Show databases in a browser, read-only; ends with Ctrl-C", serve);
  command.add_option("db", flags.databases, "Databases")->required();
  command.add_option("--port", flags.port, "Port; 0: any free one (default 8642)")
      ->check(CLI::Range(0, 65535));
  command.add_option("--host", flags.host, "Address to listen on (default 127.0.0.1: this machine alone)");
}

}  // namespace lockstep::program
