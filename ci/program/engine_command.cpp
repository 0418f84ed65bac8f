// SPDX-License-Identifier: Apache-2.0
// lockstep engine serve: Lockstep's own engine as a process behind the wire (suites/engines/WIRE.md).
// lockstep engine ranks: one of the processes of --world gloo, which starts them; not for people.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <optional>

#include "ci/program/commands.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/flight.h"
#include "suites/core/most_ranks.h"
#include "suites/engines/serve.h"
#include "suites/faults/chaos.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string numerics = "exact";
  bool withhold_timeline = false;
  Lane lane() const { return parse_lane(numerics); }
};

struct RankFlags {
  std::string numerics = "exact", process, meet, log, flight, chaos;
  double patience = 60;
  Lane lane() const { return parse_lane(numerics); }
};

// What anybody prints goes to the standard error: the standard output is the wire.
int wire_out() {
  signal(SIGPIPE, SIG_IGN);
  const int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  return out;
}

int serve(const Flags& flags) {
  return suites::serve_engine(STDIN_FILENO, wire_out(), flags.withhold_timeline);
}

int serve_ranks(const RankFlags& flags) {
  Seat seat;
  const auto numbers = parse_integers(flags.process, '/');
  LOCKSTEP_CHECK(numbers && numbers->size() == 2 && (*numbers)[0] < (*numbers)[1],
                 "[engine ranks] --process ", flags.process,
                 ": write i/n with i < n; `lockstep run --world gloo` starts these by itself");
  seat.process = (*numbers)[0], seat.processes = (*numbers)[1];
  seat.at.file = flags.meet;
  seat.where = concat(this_process(), ", log ", flags.log);
  seat.patience = patience_of(flags.patience);
  seat.to_meet = std::chrono::minutes(1);
  const int fd = open(flags.flight.c_str(), O_RDWR | O_CLOEXEC);
  const auto memory = std::make_shared<FlightMemory>(suites::kMostRanks, fd);
  std::optional<suites::Chaotic> chaotic;
  if (!flags.chaos.empty()) chaotic.emplace(suites::parse_chaos(flags.chaos));
  if (chaotic) seat.wire = [chaotic](std::string& message) { chaotic->on_wire(message); };
  return suites::serve_ranks(STDIN_FILENO, wire_out(), seat, [&](WorldPtr world, const std::string& token) {
    world = recorded(std::move(world), memory);
    return chaotic ? chaotic->around(std::move(world), token) : world;
  });
}

}  // namespace

void add_engine(CLI::App& app, Chosen& chosen) {
  auto* engine = app.add_subcommand("engine", "Engines under test");
  engine->require_subcommand(1);
  auto [command, flags] = add_command(
      *engine, chosen, "serve",
      "Serve Lockstep's own engine on the standard input and output (suites/engines/WIRE.md)", serve);
  auto [ranks, seat] = add_command(*engine, chosen, "ranks", "One process of --world gloo", serve_ranks);
  ranks.group("");
  ranks.add_option("--numerics", seat.numerics, "exact (default) or fast");
  ranks.add_option("--process", seat.process, "i/n: the i-th of n, from 0");
  ranks.add_option("--meet", seat.meet, "File where they meet");
  ranks.add_option("--log", seat.log, "What its standard error is");
  ranks.add_option("--flight", seat.flight, "Memory for what ranks did last");
  ranks.add_option("--chaos", seat.chaos, "What happens to one of the processes");
  ranks.add_option("--patience", seat.patience, "Seconds to wait for another rank");
  command.add_option("--numerics", flags.numerics, "exact (default) or fast");
  command.add_flag("--no-timeline", flags.withhold_timeline,
                   "Do not say what the engine did: differences are bounded, not explained");
}

}  // namespace lockstep::program
