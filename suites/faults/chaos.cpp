// SPDX-License-Identifier: Apache-2.0
#include "suites/faults/chaos.h"

#include <ATen/ATen.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

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

bool sends_any(const Exchange& asked) {
  for (const auto& part : asked.parts)
    for (const auto& parcel : part.sent)
      if (to_another(part, parcel)) return true;
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

class ChaoticWorld final : public World {
 public:
  ChaoticWorld(WorldPtr world, std::shared_ptr<Chaotic::State> state)
      : World(*world), world_(std::move(world)), state_(std::move(state)) {}

  Work exchange(Exchange asked) override {
    if (!is_shared(asked)) return world_->exchange(std::move(asked));
    const bool may = (state_->chaos.kind->spoil == nullptr && !state_->is("bit")) || sends_any(asked);
    if (++exchanges_ >= state_->chaos.exchange && may && !std::exchange(struck_, true))
      return struck(std::move(asked));
    auto work = world_->exchange(std::move(asked));
    if (const auto held = std::exchange(held_, nullptr); held != nullptr && held->asked) {
      tell(held->asked->op);
      held->begin(*world_);
    }
    return work;
  }

 private:
  // An exchange that is held back until another has begun.
  struct Held {
    std::optional<Exchange> asked;
    std::optional<Work> work;
    void begin(World& world) { work.emplace(world.exchange(*std::exchange(asked, std::nullopt))); }
    Exchange barrier() const {
      Exchange empty{"barrier", PerRank<Part>(asked->parts.size()), nullptr};
      for (size_t i = 0; i < empty.parts.size(); ++i) empty.parts[i].group = asked->parts[i].group;
      return empty;
    }
  };

  void tell(const char* op) const {
    const auto text = concat("chaos: ", state_->chaos.kind->name, " strikes rank ", state_->chaos.rank,
                             " at its exchange ", exchanges_, ", ", op, "\n");
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
    std::ofstream(std::filesystem::temp_directory_path() / kStruck, std::ios::app) << text;
  }

  Work struck(Exchange asked) {
    const auto& kind = *state_->chaos.kind;
    const char* op = asked.op;
    if (state_->is("swap")) {
      held_ = std::make_shared<Held>();
      held_->asked.emplace(std::move(asked));
      return Work(op, [this, held = held_, op] {
        if (held->asked) {
          tell(op);
          auto first = world_->exchange(held->barrier());
          held->begin(*world_);
          first.wait();
        }
        held->work->wait();
      });
    }
    if (kind.act != nullptr && state_->chaos.waits)
      return world_->exchange(std::move(asked)).after([this, act = kind.act, op] {
        tell(op);
        act();
      });
    tell(op);
    if (kind.act != nullptr) kind.act();
    if (state_->is("skip")) return Work(op, [] {});
    if (state_->is("bit")) state_->flips = true;
    return world_->exchange(kind.spoil == nullptr ? std::move(asked) : kind.spoil(std::move(asked)));
  }

  WorldPtr world_;
  std::shared_ptr<Chaotic::State> state_;
  std::shared_ptr<Held> held_;
  int64_t exchanges_ = 0;
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
    else if (words[i] == "when=begin" || words[i] == "when=wait")
      chaos.waits = words[i] == "when=wait";
    else
      throw Error(concat("[chaos] '", words[i],
                         "': write KIND,rank=0,exchange=1,when=begin, with when=wait, other ",
                         "numbers, or less of it"));
  }
  return chaos;
}

Chaotic::Chaotic(Chaos chaos) : state_(std::make_shared<State>()) {
  state_->chaos = chaos;
}

WorldPtr Chaotic::around(WorldPtr world) const {
  const auto& hosted = world->hosted();
  if (!std::binary_search(hosted.begin(), hosted.end(), state_->chaos.rank)) return world;
  return std::make_shared<ChaoticWorld>(std::move(world), state_);
}

void Chaotic::on_wire(std::string& message) const {
  if (state_->flips.exchange(false)) message[message.size() / 2] ^= 1;
}

}  // namespace lockstep::suites
