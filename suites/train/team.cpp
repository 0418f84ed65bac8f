// SPDX-License-Identifier: Apache-2.0
#include "suites/train/team.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <optional>
#include <sstream>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/world/c10d_world.h"
#include "engine/world/flight_files.h"
#include "suites/core/memory_file.h"
#include "suites/core/most_ranks.h"
#include "suites/core/no_processes.h"
#include "suites/core/spawn.h"

namespace lockstep::suites {
namespace {

// Of a process that a leader started: "1/4 /proc/self/fd/5 LOG".
constexpr const char* kSeatVariable = "LOCKSTEP_SEAT";

std::optional<Seat> given_seat() {
  const char* text = std::getenv(kSeatVariable);
  if (text == nullptr) return std::nullopt;
  std::istringstream in(text);
  Seat seat;
  char slash = 0;
  std::string log;
  in >> seat.process >> slash >> seat.processes >> seat.at.file >> std::ws;
  std::getline(in, log);
  seat.where = concat(this_process(), ", log ", log);
  return seat;
}

// The other processes of a leader.
class Followers {
 public:
  Followers(int64_t processes, const MemoryFile& meeting) {
    for (int64_t process = 1; process < processes; ++process) {
      const auto& log = logs_.emplace_back(process);
      Spawn one{.command = this_command(), .files = {meeting.fd}, .errors = log.fd(), .own_group = true};
      one.variable =
          concat(kSeatVariable, "=", process, "/", processes, " ", meeting.path(), " ", log.path());
      const auto child = spawn(one);
      if (child < 0) throw NoProcesses("[gloo] no process can be started");
      children_.push_back(child);
    }
  }
  ~Followers() {
    for (const auto child : children_) kill(-child, SIGKILL), waitpid(child, nullptr, 0);
  }
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  // What was written to their logs, which are kept then; "": nothing.
  std::string last_words() const {
    std::string all;
    for (size_t i = 0; i < logs_.size(); ++i)
      if (const auto words = logs_[i].last_words(); !words.empty()) {
        logs_[i].save();
        all += concat("\nprocess ", i + 1, " (log ", logs_[i].path(), ")", words);
      }
    return all;
  }

 private:
  std::deque<ProcessLog> logs_;
  std::vector<pid_t> children_;
};

// The processes of a team, as one of them sees them. They meet when the first World is asked for.
class Members {
 public:
  Members(std::optional<Seat> seat, int64_t processes, Patience patience)
      : seat_(std::move(seat)), count_(processes), patience_(patience) {}

  void run(int64_t n, const Team::Body& body) {
    if (!processes_) meet();
    ++number_;
    const bool hosts = !hosted_ranks(n, seat_->processes, seat_->process).empty();
    try {
      if (hosts)
        processes_->run(number_, n, [&](const WorldPtr& world) { body(with_flights(world, seat_->where)); });
    } catch (const RankLost& e) {
      throw RankLost(e.what() + (followers_ ? followers_->last_words() : ""));
    }
  }

 private:
  void meet() {
    if (!seat_) {
      auto& seat = seat_.emplace();
      seat.processes = count_, seat.at.file = meeting_.path();
      seat.patience = seat.to_meet = patience_;
      seat.where = concat(this_process(), ", which started the others");
      followers_.emplace(count_, meeting_);
    }
    std::string wrong;
    try {
      processes_.emplace(*seat_);
      wrong = self_test(*processes_, seat_->processes);
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    if (wrong.empty()) return;
    throw NoProcesses(concat("[gloo] ", seat_->processes, " processes cannot move bits: ", wrong,
                             followers_ ? followers_->last_words() : ""));
  }

  MemoryFile meeting_;
  std::optional<Seat> seat_;
  const int64_t count_;
  const Patience patience_;
  std::optional<Followers> followers_;
  std::optional<Processes> processes_;  // ends first: the others then hear what they still wait for
  int64_t number_ = 0;
};

}  // namespace

Team make_team(const std::string& world, int64_t ranks, std::chrono::seconds patience) {
  Team team;
  if (world == "thread")
    team.in_world = [patience](int64_t n, const Team::Body& body) {
      run_on_recorded_threads(n, patience, "", body);
    };
  if (world != "gloo") return team;
  auto seat = given_seat();
  if (!seat && ranks == 0) seat = launched_seat();
  if (seat) seat->patience = seat->to_meet = patience;
  team.leads = !seat || seat->process == 0;
  team.in_turn = true;
  const auto members =
      std::make_shared<Members>(std::move(seat), ranks == 0 ? kDefaultProcesses : ranks, patience);
  team.in_world = [members](int64_t n, const Team::Body& body) { members->run(n, body); };
  return team;
}

}  // namespace lockstep::suites
