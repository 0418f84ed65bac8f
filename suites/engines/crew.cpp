// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/crew.h"

#include <deque>

#include "engine/values/as_size.h"
#include "engine/world/c10d_world.h"
#include "suites/core/memory_file.h"
#include "suites/core/most_ranks.h"
#include "suites/core/no_processes.h"
#include "suites/engines/peer.h"
#include "suites/engines/serve.h"

namespace lockstep::suites {
namespace {

using wire::Message;
using Kind = EngineFailure::Kind;

class StartedCrew : public Crew {
 public:
  StartedCrew(const std::vector<std::string>& command, int64_t processes, double seconds, double start)
      : seconds_(seconds), flights_(kMostRanks, flight_.fd) {
    const MemoryFile meeting;
    for (int64_t process = 0; process < processes; ++process) {
      const auto& log = logs_.emplace_back(process);
      auto words = command;
      for (const auto& word :
           {std::string("--process"), concat(process, "/", processes), std::string("--meet"), meeting.path(),
            std::string("--patience"), concat(seconds / 2), std::string("--log"), log.path(),
            std::string("--flight"), flight_.path()})
        words.push_back(word);
      peers_.emplace_back(Spawn{.command = words, .files = {meeting.fd, flight_.fd}, .errors = log.fd()});
    }
    for (const auto& heard : ask({{{"type", "hello"}}}, processes, after(start))) {
      if (heard.failure || heard.type() != "hello")
        throw NoProcesses(concat("[gloo] ", processes, " processes on this machine cannot move bits: ",
                                 heard.failure ? heard.failure->what() : heard.reason()));
      where_.push_back(text_of(heard.answer.header, "where"));
    }
  }

  int64_t size() const override { return std::ssize(peers_); }

  std::vector<Heard> ask(const Message& request, int64_t used) override {
    return ask(request, used, after(seconds_));
  }

  void forget(int64_t n) override { flights_.clear(n); }

  std::string parted(const std::string& token, int64_t n) const override {
    std::vector<Flight> flights;
    for (int64_t process = 0; process < std::ssize(where_); ++process)
      for (const int64_t rank : hosted_ranks(n, std::ssize(where_), process))
        flights.push_back(flight_of(flights_.of(rank), rank, n, where_[as_size(process)], token));
    return lockstep::parted(flights);
  }

 private:
  std::vector<Heard> ask(const Message& request, int64_t used, wire::Deadline until) {
    std::vector<Heard> all(as_size(used));
    for (const bool sends : {true, false})
      for (size_t process = 0; process < all.size(); ++process) {
        auto& [answer, failure] = all[process];
        try {
          if (sends)
            peers_[process].send(request, until);
          else if (!failure)
            answer = peers_[process].receive(until);
        } catch (const EngineFailure& e) {
          failure = named(process, e);
        }
      }
    return all;
  }

  EngineFailure named(size_t process, const EngineFailure& e) const {
    const auto& log = logs_[process];
    log.save();
    return {e.kind, e.end,
            concat("process ", process, " of ", peers_.size(), " (log ", log.path(), "): ", e.what(),
                   log.last_words())};
  }

  double seconds_;
  const MemoryFile flight_;
  const FlightMemory flights_;      // what the processes write to, and nobody loses
  std::vector<std::string> where_;  // by process
  std::deque<ProcessLog> logs_;     // by process, as the peers: neither can be moved
  std::deque<Peer> peers_;
};

// ---- those of a launcher ----

constexpr std::string_view kEnd = "end", kLost = "lost: ";

// A message as words.
std::string words_of(const Message& message) {
  return message.header.dump(-1, ' ', false, wire::Json::error_handler_t::replace) + "\n" + message.payload;
}

Message message_of(const std::string& words) {
  const auto line = words.find('\n');
  return {wire::Json::parse(words.substr(0, line)), words.substr(line + 1)};
}

// The processes of the launcher, which can move bits. In a World ranks wait half as long as for an answer, so
// that who waits in vain has time to say for whom.
std::unique_ptr<Processes> met(double seconds) {
  auto seat = launched_seat();
  seat->patience = patience_of(seconds / 2), seat->to_meet = patience_of(seconds);
  std::string wrong;
  try {
    auto processes = std::make_unique<Processes>(*seat);
    wrong = self_test(*processes, seat->processes);
    if (wrong.empty()) return processes;
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  throw NoProcesses(concat("[gloo] the ", seat->processes, " processes cannot move bits: ", wrong));
}

WorldPtr with_own_flights(WorldPtr world, const std::string& token) {
  return with_flights(std::move(world), this_process(), token);
}

class JoinedCrew : public Crew {
 public:
  explicit JoinedCrew(double seconds)
      : patience_(patience_of(seconds * 3 / 4)),
        size_(launched_seat()->processes),
        processes_(met(seconds)) {}
  ~JoinedCrew() override {
    const std::string last(lost_.empty() ? kEnd : concat(kLost, lost_));
    for (int64_t process = 1; process < size_; ++process) processes_->say(process, last);
    processes_->settle();
  }

  int64_t size() const override { return size_; }
  bool can_be_replaced() const override { return false; }

  std::vector<Heard> ask(const Message& request, int64_t used) override {
    std::vector<Heard> all(as_size(used));
    const auto until = std::chrono::steady_clock::now() + patience_;
    const auto left = [&] {
      const auto rest = std::chrono::duration_cast<Patience>(until - std::chrono::steady_clock::now());
      return std::max(rest, Patience(1));
    };
    for (int64_t process = 1; process < used; ++process) processes_->say(process, words_of(request));
    all[0].answer = answer_hosted(*processes_, request, with_own_flights);
    for (int64_t process = 1; process < used; ++process) {
      auto& [answer, failure] = all[as_size(process)];
      try {
        answer = message_of(processes_->hear(process, left()));
      } catch (const RankLost& e) {
        failure.emplace(Kind::kDied, "", e.what());
        processes_->give_up(process);
        lost_ += concat(lost_.empty() ? "" : "; ", e.what());
      }
    }
    return all;
  }

 private:
  const Patience patience_;  // with an answer: less than until this process itself counts as hung
  const int64_t size_;
  const std::unique_ptr<Processes> processes_;
  std::string lost_;  // which of the others, and how it is known
};

}  // namespace

std::string Heard::type() const {
  return text_of(answer.header, "type");
}

std::string Heard::reason() const {
  return text_of(answer.header, "reason");
}

CrewPtr start_crew(const std::vector<std::string>& command, int64_t processes, double seconds, double start) {
  return std::make_unique<StartedCrew>(command, processes, seconds, start);
}

CrewPtr join_crew(double seconds) {
  return std::make_unique<JoinedCrew>(seconds);
}

bool launched() {
  return launched_processes() > 1;
}

bool follows() {
  return launched() && launched_seat()->process > 0;
}

int follow(double seconds) {
  const auto processes = met(seconds);
  while (true) {
    const auto words = processes->hear(0, std::chrono::hours(24 * 365));
    if (words == kEnd) return 0;
    if (words.starts_with(kLost)) throw RankLost(words.substr(kLost.size()));
    processes->say(0, words_of(answer_hosted(*processes, message_of(words), with_own_flights)));
  }
}

}  // namespace lockstep::suites
