// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/ranks_engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/values/as_size.h"
#include "engine/world/c10d_world.h"
#include "engine/world/flight_log.h"
#include "suites/core/most_ranks.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/merge_results.h"
#include "suites/engines/peer.h"
#include "suites/engines/wire_messages.h"

namespace lockstep::suites {
namespace {

using wire::Message;
using Kind = EngineFailure::Kind;

// A file in memory.
struct Memory {
  Memory() : fd(memfd_create("lockstep", MFD_CLOEXEC)) {}
  ~Memory() { close(fd); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  const int fd;
};

// What a process writes to its standard error. It is in memory, so that nothing is left of it, and has a path
// that people are told, where save() puts it.
class Log {
 public:
  explicit Log(int64_t process) {
    static int made = 0;
    const auto name = concat("lockstep-", getpid(), "-", ++made, "-process-", process, ".log");
    path_ = (std::filesystem::temp_directory_path() / name).string();
  }
  const std::string& path() const { return path_; }
  int fd() const { return memory_.fd; }
  void save() const { std::ofstream(path_, std::ios::binary) << text(); }
  // "; its log ends with: …" if there is anything.
  std::string last_words() const {
    constexpr size_t kMost = 400;
    auto all = text();
    all.erase(all.find_last_not_of('\n') + 1);
    return all.empty() ? "" : "; its log ends with: " + all.substr(all.size() - std::min(all.size(), kMost));
  }

 private:
  std::string text() const {
    std::string all(static_cast<size_t>(std::max<off_t>(0, lseek(memory_.fd, 0, SEEK_END))), '\0');
    const ssize_t n = pread(memory_.fd, all.data(), all.size(), 0);
    return all.substr(0, n > 0 ? static_cast<size_t>(n) : 0);
  }

  Memory memory_;
  std::string path_;
};

// The positions of the mesh whose ranks the process hosts, ascending.
std::vector<int64_t> positions_of(const DeviceMesh& mesh, int64_t n, int64_t processes, int64_t process) {
  const auto hosted = hosted_ranks(n, processes, process);
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < mesh.size(); ++p)
    if (std::binary_search(hosted.begin(), hosted.end(), mesh.ranks()[as_size(p)])) positions.push_back(p);
  return positions;
}

// What came of a request to one process.
struct Heard {
  Message answer;
  std::optional<EngineFailure> failure;

  std::string type() const { return text_of(answer.header, "type"); }
  std::string reason() const { return text_of(answer.header, "reason"); }
  bool lost_another() const { return answer.header.value("rank_lost", false); }
  bool connected() const { return !answer.header.is_object() || answer.header.value("connected", true); }
};

}  // namespace

// The processes while all of them live.
class RanksEngine::Crew {
 public:
  Crew(const std::vector<std::string>& command, int64_t processes, double seconds)
      : seconds_(seconds), flights_(kMostRanks, flight_.fd) {
    const Memory meeting;
    for (int64_t process = 0; process < processes; ++process) {
      const auto& log = logs_.emplace_back(process);
      auto words = command;
      for (const auto& word :
           {std::string("--process"), concat(process, "/", processes), std::string("--meet"),
            concat("/proc/self/fd/", meeting.fd), std::string("--patience"), concat(seconds / 2),
            std::string("--log"), log.path(), std::string("--flight"), concat("/proc/self/fd/", flight_.fd)})
        words.push_back(word);
      peers_.emplace_back(Spawn{.command = words, .files = {meeting.fd, flight_.fd}, .errors = log.fd()});
    }
    for (const auto& heard : ask({{{"type", "hello"}}}, processes)) {
      if (heard.failure || heard.type() != "hello")
        throw NoProcesses(concat("[gloo] ", processes, " processes on this machine cannot move bits: ",
                                 heard.failure ? heard.failure->what() : heard.reason()));
      where_.push_back(text_of(heard.answer.header, "where"));
    }
  }

  // Before a World of n ranks begins.
  void forget(int64_t n) const { flights_.clear(n); }

  // Of n ranks: where they parted, and their flights, written to files; "" where all did the same to the end.
  std::string parted(const std::string& token, int64_t n) const {
    std::vector<Flight> flights;
    for (int64_t process = 0; process < std::ssize(where_); ++process)
      for (const int64_t rank : hosted_ranks(n, std::ssize(where_), process))
        flights.push_back(flight_of(flights_.of(rank), rank, n, where_[as_size(process)], token));
    const auto split = split_of(flights);
    if (!split) return "";
    const auto base = (std::filesystem::temp_directory_path() /
                       concat("lockstep-", getpid(), "-", token.substr(token.rfind('#') + 1), "-rank-"))
                          .string();
    for (const auto& flight : flights)
      std::ofstream(concat(base, flight.rank, ".flight"), std::ios::binary) << to_text(flight);
    return concat("\nranks part in ", describe(*split), "\nlockstep show flight ", base, "*.flight");
  }

  // Of the first `used` processes.
  std::vector<Heard> ask(const Message& request, int64_t used) {
    const auto until = after(seconds_);
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

 private:
  EngineFailure named(size_t process, const EngineFailure& e) const {
    const auto& log = logs_[process];
    log.save();
    return {e.kind, e.end,
            concat("process ", process, " of ", peers_.size(), " (log ", log.path(), "): ", e.what(),
                   log.last_words())};
  }

  double seconds_;
  const Memory flight_;
  const FlightMemory flights_;      // what the processes write to, and nobody loses
  std::vector<std::string> where_;  // by process
  std::deque<Log> logs_;            // by process, as the peers: neither can be moved
  std::deque<Peer> peers_;
};

namespace {

// The process that is gone, and what those say that wait for it.
[[noreturn]] void throw_failure(const std::vector<Heard>& all) {
  const Heard* worst = nullptr;
  for (const auto kind : {Kind::kDied, Kind::kWire, Kind::kHung})
    for (const auto& heard : all)
      if (worst == nullptr && heard.failure && heard.failure->kind == kind) worst = &heard;
  std::string text = worst->failure->what();
  for (size_t process = 0; process < all.size(); ++process)
    if (all[process].type() == "error") text += concat("\nprocess ", process, ": ", all[process].reason());
  throw EngineFailure(worst->failure->kind, worst->failure->end, text);
}

// The first error that tells more than that another rank was lost; else the first.
const Heard* first_error(const std::vector<Heard>& all) {
  const Heard* first = nullptr;
  for (const auto& heard : all)
    if (heard.type() == "error" && (first == nullptr || (first->lost_another() && !heard.lost_another())))
      first = &heard;
  return first;
}

void check(const std::vector<Heard>& all) {
  if (std::any_of(all.begin(), all.end(), [](const auto& heard) { return heard.failure.has_value(); }))
    throw_failure(all);
  if (const auto* error = first_error(all)) throw EngineFailure(Kind::kError, "", error->reason());
  for (const auto& heard : all) {
    if (heard.type() == all[0].type()) continue;
    throw EngineFailure(Kind::kError, "",
                        concat("some ranks refuse what others run: ", heard.reason(), all[0].reason()));
  }
  if (all[0].type() == "refused")
    throw EngineRefusal(text_of(all[0].answer.header, "op"), text_of(all[0].answer.header, "why"),
                        all[0].reason());
}

}  // namespace

RanksEngine::RanksEngine(std::vector<std::string> command, int64_t processes, double seconds)
    : command_(std::move(command)),
      processes_(processes),
      seconds_(seconds),
      crew_(std::make_unique<Crew>(command_, processes, seconds)) {}

RanksEngine::~RanksEngine() = default;

const EngineProfile& RanksEngine::profile() const {
  return own_profile();
}

EngineResult RanksEngine::run(const oracle::Case& c, bool want_timeline) {
  Traffic traffic;
  return run(c, want_timeline, traffic);
}

EngineResult RanksEngine::run(const oracle::Case& c, bool want_timeline, Traffic& traffic) {
  if (crew_ == nullptr) crew_ = std::make_unique<Crew>(command_, processes_, seconds_), world_ = 0;
  const int64_t n = c.mesh.size(), used = std::min(n, processes_);
  crew_->forget(n);
  const auto token = oracle::to_token(c);
  const auto all = crew_->ask(
      {{{"type", "run"}, {"world", ++world_}, {"token", token}, {"want_timeline", want_timeline}}}, used);
  try {
    check(all);
  } catch (const EngineFailure& e) {
    const EngineFailure told(e.kind, e.end, e.what() + crew_->parted(token, n));
    const bool whole =
        std::all_of(all.begin(), all.end(), [](const auto& heard) { return heard.connected(); });
    if (e.kind != Kind::kError || !whole) crew_.reset();
    throw told;
  }
  std::vector<HostedResult> parts;
  for (int64_t process = 0; process < used; ++process) {
    const auto& answer = all[as_size(process)].answer;
    auto& part = parts.emplace_back();
    part.positions = positions_of(c.mesh, n, processes_, process);
    part.result = wire::read_result(answer, c, [&](const DeviceMesh& mesh) {
      return std::ssize(positions_of(mesh, n, processes_, process));
    });
    part.traffic.sent = answer.header.at("sent").get<std::vector<int64_t>>();
    traffic += part.traffic;
  }
  return merge(std::move(parts));
}

}  // namespace lockstep::suites
