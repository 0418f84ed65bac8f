// SPDX-License-Identifier: Apache-2.0
// The World of the processes that a launcher started.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <optional>

#include "engine/values/text.h"
#include "engine/world/c10d_world.h"
#include "engine/world/flight_files.h"

namespace lockstep {
namespace {

// How launchers say which process this is, of how many. What srun says is of a step: the script of a batch
// job has none, and is one process.
struct Launcher {
  const char *name, *process, *processes;
};
constexpr Launcher kLaunchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE"},
    {"Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int64_t number(const char* name) {
  const auto value = parse_integer(variable(name));
  LOCKSTEP_CHECK(value && *value >= 0, "[world] ", name, "='", variable(name), "' is no number");
  return *value;
}

const Launcher* launcher() {
  for (const auto& one : kLaunchers)
    if (!variable(one.process).empty() && !variable(one.processes).empty()) return &one;
  return nullptr;
}

Seat seat_of(const Launcher& by) {
  Seat seat;
  seat.process = number(by.process), seat.processes = number(by.processes);
  LOCKSTEP_CHECK(seat.process < seat.processes, "[world] ", by.process, "=", seat.process, " of ",
                 by.processes, "=", seat.processes);
  LOCKSTEP_CHECK(!variable("MASTER_ADDR").empty() && !variable("MASTER_PORT").empty(), "[world] ", by.name,
                 " started this process, but MASTER_ADDR and MASTER_PORT do not say where to meet; "
                 "set them to the first process's host and a free port of it");
  const bool served = variable("TORCHELASTIC_USE_AGENT_STORE") == "True";  // by torchrun itself
  seat.at.host = variable("MASTER_ADDR");
  seat.at.port = number("MASTER_PORT");
  seat.at.serves = seat.process == 0 && !served;
  seat.at.prefix = "lockstep/" + variable("TORCHELASTIC_RESTART_COUNT");
  seat.where = this_process();
  seat.patience = seat.to_meet = std::chrono::minutes(10);
  return seat;
}

// The processes, as long as somebody has the World.
struct Joined {
  static constexpr int64_t kNumber = 1;

  Joined(const Seat& seat, int64_t ranks) : processes(seat), n(ranks) {
    const auto wrong = self_test(processes, seat.processes);
    LOCKSTEP_CHECK(wrong.empty(), "[world] ", seat.processes, " processes cannot move bits here: ", wrong);
    world = with_flights(processes.begin(kNumber, n), seat.where);
  }
  ~Joined() {
    const bool thrown = std::uncaught_exceptions() > 0;
    processes.end(kNumber, n, thrown ? "its program ended by an exception" : "its program is done");
  }

  Processes processes;
  int64_t n;
  WorldPtr world;
};

}  // namespace

std::string this_process() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return concat("process ", getpid(), " on ", host);
}

std::optional<Seat> launched_seat() {
  const auto* by = launcher();
  return by == nullptr ? std::nullopt : std::optional(seat_of(*by));
}

int64_t launched_processes() {
  const auto* by = launcher();
  return by == nullptr ? 0 : parse_integer(variable(by->processes)).value_or(0);
}

WorldPtr World::from_environment(int64_t ranks_each, Patience patience) {
  LOCKSTEP_CHECK(ranks_each >= 1, "[world] a process hosts at least one rank, not ", ranks_each);
  auto seat = launched_seat();
  LOCKSTEP_CHECK(seat,
                 "[world] neither torchrun nor mpirun nor srun started this process: RANK and WORLD_SIZE are "
                 "not set; start it by one of them, or use local_world");
  static std::atomic<int64_t> worlds = 0;  // of one program: what they say must not meet
  seat->at.prefix += concat("/world ", worlds++);
  seat->patience = seat->to_meet = patience;
  auto joined = std::make_shared<Joined>(*seat, seat->processes * ranks_each);
  auto* world = joined->world.get();
  return {std::move(joined), world};
}

}  // namespace lockstep
