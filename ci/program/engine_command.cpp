// SPDX-License-Identifier: Apache-2.0
// lockstep engine serve: Lockstep's own engine as a process behind the wire (suites/engines/WIRE.md).
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "ci/program/commands.h"
#include "suites/engines/serve.h"

namespace lockstep::program {
namespace {

// What anybody prints goes to the standard error: the standard output is the wire.
int serve(bool withhold_timeline) {
  signal(SIGPIPE, SIG_IGN);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return suites::serve_engine(STDIN_FILENO, out, withhold_timeline);
}

}  // namespace

void add_engine(CLI::App& app, Chosen& chosen) {
  struct Flags {
    std::string numerics = "exact";
    bool withhold_timeline = false;
  };
  auto flags = std::make_shared<Flags>();
  auto* engine_app = app.add_subcommand("engine", "Engines under test");
  engine_app->require_subcommand(1);
  auto* serve_app = engine_app->add_subcommand(
      "serve", "Serve Lockstep's own engine on the standard input and output (suites/engines/WIRE.md)");
  serve_app->add_option("--numerics", flags->numerics, "exact (default) or fast");
  serve_app->add_flag("--no-timeline", flags->withhold_timeline,
                      "Do not say what the engine did: differences are bounded, not explained");
  serve_app->callback([&chosen, flags] {
    chosen.needs_lane = true;
    chosen.lane = parse_lane(flags->numerics);
    chosen.action = [flags] { return serve(flags->withhold_timeline); };
  });
}

}  // namespace lockstep::program
