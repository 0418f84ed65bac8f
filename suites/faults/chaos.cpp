// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/chaos.h"

#include <ATen/ATen.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "engine/context/asking.h"
#include "engine/context/context.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/world.h"

namespace lockstep::suites {
namespace {

bool is_shared(const Exchange& asked) {
  return std::any_of(asked.parts.begin(), asked.parts.end(),
                     [](const Part& part) { return part.group->ranks.size() > 1; });
}

bool to_another(const Part& part, const Parcel& parcel) {
  return parcel.place != part.group->place;
}

bool is_elsewhere(int64_t rank, const std::vector<int64_t>& hosted) {
  return !std::binary_search(hosted.begin(), hosted.end(), rank);
}

// Whether ranks of other processes are asked: nobody but this process would see what happens.
bool leaves(const Exchange& asked, const std::vector<int64_t>& hosted) {
  for (const auto& part : asked.parts)
    for (const auto rank : part.group->ranks)
      if (is_elsewhere(rank, hosted)) return true;
  return false;
}

// Whether anything is sent to them.
bool sends_away(const Exchange& asked, const std::vector<int64_t>& hosted) {
  for (const auto& part : asked.parts)
    for (const auto& parcel : part.sent)
      if (is_elsewhere(part.group->ranks[as_size(parcel.place)], hosted)) return true;
  return false;
}

template <at::Tensor (*change)(const at::Tensor&)>
Exchange with_sent(Exchange asked) {
  for (auto& part : asked.parts)
    for (auto& parcel : part.sent)
      if (to_another(part, parcel)) parcel.slab = change(parcel.tensor());
  return asked;
}

at::Tensor longer(const at::Tensor& sent) {
  return at::cat({sent.reshape({-1}), at::zeros({1}, sent.options())});
}

at::Tensor of_other_dtype(const at::Tensor& sent) {
  return sent.to(sent.scalar_type() == at::kFloat ? at::kDouble : at::kFloat);
}

// Those of gloo: no other socket of the process has a peer in the network.
void lose_connections() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const auto fd = parse_integer(entry.path().filename().string());
    sockaddr_storage peer{};
    socklen_t size = sizeof peer;
    if (fd && getpeername(static_cast<int>(*fd), reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.ss_family == AF_INET)
      shutdown(static_cast<int>(*fd), SHUT_RDWR);
  }
}

// Where what struck is told, in the folder for temporary files: also of what nobody noticed.
constexpr const char* kStruck = "lockstep-chaos.log";

constexpr ChaosKind kKinds[] = {
    {.name = "kill", .what = "the process is killed (SIGKILL)", .act = [] { raise(SIGKILL); }},
    {.name = "stop", .what = "the process stops for good (SIGSTOP)", .act = [] { raise(SIGSTOP); }},
    {.name = "disconnect", .what = "its connections to all others are lost", .act = lose_connections},
    {.name = "slow",
     .what = "the rank is late by a third of a second",
     .fails = false,
     .act = [] { std::this_thread::sleep_for(std::chrono::milliseconds(333)); }},
    {.name = "skip", .what = "the exchange is left out"},
    {.name = "swap", .what = "the exchange begins after the next, or after a barrier, if waited for at once"},
    {.name = "shape", .what = "what is sent is longer by an element", .spoil = with_sent<longer>},
    {.name = "dtype", .what = "what is sent has another dtype", .spoil = with_sent<of_other_dtype>},
    {.name = "bit", .what = "one bit of the message is flipped on the wire"},
};

// What an exchange may be called (engine/world/collectives.h).
constexpr std::string_view kCollectives[] = {"all_gather", "all_reduce",     "all_to_all", "broadcast",
                                             "exchange",   "reduce_scatter", "barrier"};

bool is_collective(std::string_view name) {
  return std::find(std::begin(kCollectives), std::end(kCollectives), name) != std::end(kCollectives);
}

std::string collectives() {
  std::string text;
  for (const auto name : kCollectives) text += concat(text.empty() ? "" : ", ", name);
  return text;
}

std::string names() {
  std::string text;
  for (const auto& kind : kKinds) text += concat(text.empty() ? "" : ", ", kind.name);
  return text;
}

const ChaosKind* find_kind(std::string_view name) {
  for (const auto& kind : kKinds)
    if (name == kind.name) return &kind;
  return nullptr;
}

// The number after "name="; nothing else.
std::optional<int64_t> number_of(std::string_view word, std::string_view name) {
  return word.starts_with(name) ? parse_integer(word.substr(name.size())) : std::nullopt;
}

}  // namespace

struct Chaotic::State {
  Chaos chaos;
  std::atomic<bool> flips{false};  // the next message that leaves

  bool is(std::string_view kind) const { return kind == chaos.kind->name; }
};

namespace {

// Whether a group that others are in, too, is asked by both.
bool in_common(const Exchange& a, const Exchange& b, const std::vector<int64_t>& hosted) {
  return std::any_of(a.parts.begin(), a.parts.end(), [&](const Part& part) {
    const auto& ranks = part.group->ranks;
    return std::any_of(ranks.begin(), ranks.end(), [&](int64_t r) { return is_elsewhere(r, hosted); }) &&
           std::any_of(b.parts.begin(), b.parts.end(),
                       [&](const Part& other) { return other.group->ranks == ranks; });
  });
}

class ChaoticWorld final : public World {
 public:
  ChaoticWorld(WorldPtr world, std::shared_ptr<Chaotic::State> state, std::string token)
      : World(*world), world_(std::move(world)), state_(std::move(state)), token_(std::move(token)) {}
  Library* library() override { return world_->library(); }

  Work exchange(Exchange asked) override {
    const auto number = number_;  // as which one comes in the place of one that is held back
    count(asked);
    if (!is_shared(asked)) return world_->exchange(std::move(asked));
    if (++exchanges_ >= state_->chaos.exchange && may(asked) && !std::exchange(struck_, true))
      return struck(std::move(asked));
    // Those of other groups do not see which of the two came first.
    const bool passes = held_ != nullptr && held_->asked && in_common(asked, *held_->asked, hosted());
    auto work = world_->exchange(std::move(asked));
    if (passes) {
      tell(number, held_->strike);
      std::exchange(held_, nullptr)->begin(*world_);
    }
    return work;
  }

 private:
  // An exchange that is held back until another has begun.
  struct Held {
    std::string strike;
    std::optional<Exchange> asked;
    std::optional<Work> work;
    void begin(World& world) { work.emplace(world.exchange(*std::exchange(asked, std::nullopt))); }
    Exchange barrier() const {
      Exchange empty{"barrier", PerRank<Part>(asked->parts.size()), nullptr};
      for (size_t i = 0; i < empty.parts.size(); ++i) empty.parts[i].group = asked->parts[i].group;
      return empty;
    }
  };

  bool may(const Exchange& asked) const {
    const auto& chaos = state_->chaos;
    const bool spoils = chaos.kind->spoil != nullptr || state_->is("bit");
    return (chaos.op.empty() || chaos.op == asked.op) &&
           (spoils ? sends_away(asked, hosted()) : leaves(asked, hosted()));
  }

  // As flights number them: each rank its own, those with nobody else too, and those of each of its groups.
  void count(const Exchange& asked) {
    for (const auto& part : asked.parts) {
      ++begun_[{part.group->ranks, part.group->place}];
      if (part.group->self() == state_->chaos.rank) ++number_;
    }
  }

  // "all_gather, asked by op 2 aten::mm; exchange 2 of ranks 0,1; process 4711 hosts ranks 1; case v1:…":
  // before the next exchange is counted.
  std::string strike(const Exchange& asked) const {
    const auto* timeline = current_context()->timeline;
    const std::string_view asks = Asking::now();
    auto text =
        concat(asked.op, ", asked by ", timeline == nullptr ? "" : concat("op ", timeline->size(), " "),
               asks.empty() ? "no op" : asks);
    std::map<std::vector<int64_t>, int64_t> meetings;
    for (const auto& part : asked.parts)
      if (part.group->ranks.size() > 1)
        meetings[part.group->ranks] = begun_.at({part.group->ranks, part.group->place});
    for (const auto& [ranks, meeting] : meetings)
      text += concat("; exchange ", meeting, " of ranks ", join(ranks, ','));
    return text +
           concat("; process ", getpid(), " hosts ranks ", join(hosted(), ','), "; case ", token_, "\n");
  }

  // "chaos: kill strikes rank 1 at its exchange 3, all_gather, …"
  void tell(int64_t number, const std::string& strike) const {
    const auto text = concat("chaos: ", state_->chaos.kind->name, " strikes rank ", state_->chaos.rank,
                             " at its exchange ", number, ", ", strike);
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    std::ofstream(std::filesystem::temp_directory_path() / kStruck, std::ios::app) << text;
  }

  Work struck(Exchange asked) {
    const auto& kind = *state_->chaos.kind;
    const char* op = asked.op;
    const auto told = strike(asked);
    if (state_->is("swap")) {
      held_ = std::make_shared<Held>();
      held_->strike = told;
      held_->asked.emplace(std::move(asked));
      return Work(op, [this, held = held_] {
        if (!held->asked) return held->work->wait();
        tell(number_, held->strike);
        auto first = world_->exchange(held->barrier());
        auto second =
            world_->exchange(*std::exchange(held->asked, std::nullopt));  // not held: first may throw
        first.wait();
        second.wait();
      });
    }
    if (kind.act != nullptr && state_->chaos.waits)
      return world_->exchange(std::move(asked))
          .around([this, act = kind.act, number = number_, told](const auto& finish) {
            tell(number, told);
            act();
            finish();
          });
    tell(number_, told);
    if (kind.act != nullptr) kind.act();
    if (state_->is("skip")) return Work(op, [] {});
    if (state_->is("bit")) state_->flips = true;
    return world_->exchange(kind.spoil == nullptr ? std::move(asked) : kind.spoil(std::move(asked)));
  }

  WorldPtr world_;
  std::shared_ptr<Chaotic::State> state_;
  const std::string token_;
  std::shared_ptr<Held> held_;
  std::map<std::pair<std::vector<int64_t>, int64_t>, int64_t> begun_;  // exchanges, by group and place
  int64_t exchanges_ = 0;                                              // with others
  int64_t number_ = 0;                                                 // of the rank
  bool struck_ = false;
};

}  // namespace

std::span<const ChaosKind> chaos_kinds() {
  return kKinds;
}

Chaos parse_chaos(const std::string& text) {
  const auto words = split(text, ',');
  Chaos chaos;
  chaos.kind = find_kind(words[0]);
  LOCKSTEP_CHECK(chaos.kind != nullptr, "[chaos] '", words[0], "' is none of ", names());
  for (size_t i = 1; i < words.size(); ++i) {
    if (const auto rank = number_of(words[i], "rank="); rank && *rank >= 0)
      chaos.rank = *rank;
    else if (const auto exchange = number_of(words[i], "exchange="); exchange && *exchange >= 1)
      chaos.exchange = *exchange;
    else if (words[i].starts_with("op=") && is_collective(words[i].substr(3)))
      chaos.op = words[i].substr(3);
    else if (words[i] == "when=begin" || words[i] == "when=wait")
      chaos.waits = words[i] == "when=wait";
    else
      throw Error(concat("[chaos] '", words[i],
                         "': write KIND,rank=0,exchange=1,op=all_gather,when=begin, with ",
                         "when=wait, other numbers, or less of it; op is one of ", collectives()));
  }
  return chaos;
}

Chaotic::Chaotic(Chaos chaos) : state_(std::make_shared<State>()) {
  state_->chaos = chaos;
}

WorldPtr Chaotic::around(WorldPtr world, const std::string& token) const {
  const auto& hosted = world->hosted();
  if (!std::binary_search(hosted.begin(), hosted.end(), state_->chaos.rank)) return world;
  return std::make_shared<ChaoticWorld>(std::move(world), state_, token);
}

void Chaotic::on_wire(std::string& message) const {
  if (state_->flips.exchange(false)) message[message.size() / 2] ^= 1;
}

}  // namespace lockstep::suites
