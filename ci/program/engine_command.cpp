// SPDX-License-Identifier: Apache-2.0
// lockstep engine serve: Lockstep's own engine as a process behind the wire (suites/engines/WIRE.md).
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "ci/program/commands.h"
#include "suites/engines/serve.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string numerics = "exact";
  bool withhold_timeline = false;
  Lane lane() const { return parse_lane(numerics); }
};

// What anybody prints goes to the standard error: the standard output is the wire.
int serve(const Flags& flags) {
  signal(SIGPIPE, SIG_IGN);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return suites::serve_engine(STDIN_FILENO, out, flags.withhold_timeline);
}

}  // namespace

void add_engine(CLI::App& app, Chosen& chosen) {
  auto* engine = app.add_subcommand("engine", "Engines under test");
  engine->require_subcommand(1);
  auto [command, flags] = add_command(
      *engine, chosen, "serve",
      "Serve Lockstep's own engine on the standard input and output (suites/engines/WIRE.md)", serve);
  command.add_option("--numerics", flags.numerics, "exact (default) or fast");
  command.add_flag("--no-timeline", flags.withhold_timeline,
                   "Do not say what the engine did: differences are bounded, not explained");
}

}  // namespace lockstep::program
