// SPDX-License-Identifier: Apache-2.0
// `lockstep engine ranks` for tests: the process of number 1 does what the first argument says.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <thread>

#include "engine/lane/numerics.h"
#include "engine/values/text.h"
#include "engine/world/flight_log.h"
#include "engine/world/world.h"
#include "suites/core/most_ranks.h"
#include "suites/engines/serve.h"
#include "suites/faults/wrap.h"

namespace lockstep::suites {
namespace {

// Does something instead of the third exchange of each World, or with it.
class Spoilt : public World {
 public:
  using Spoil = Work (*)(World& world, Exchange asked);
  Spoilt(WorldPtr world, Spoil spoil) : World(*world), world_(std::move(world)), spoil_(spoil) {}

  Work exchange(Exchange asked) override {
    return ++exchanges_ == 3 ? spoil_(*world_, std::move(asked)) : world_->exchange(std::move(asked));
  }

 private:
  WorldPtr world_;
  Spoil spoil_;
  int64_t exchanges_ = 0;
};

std::shared_ptr<FlightMemory> flights;  // of all ranks

bool has_come_to(int64_t rank, int64_t exchange) {
  for (const auto& entry : flight_of(flights->of(rank), rank, 2, "", "").entries)
    if (entry.number == exchange && entry.state == FlightState::kDone) return true;
  return false;
}

// With a process that is killed or stopped stays what it has sent and nobody has read: so not before rank 0
// has that.
void raise_when_read(int signal) {
  for (int i = 0; i < 1000 && !has_come_to(0, 2); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  raise(signal);
}

Work dies(World&, Exchange asked) {
  raise_when_read(SIGKILL);
  return Work(asked.op, [] {});
}

Work stalls(World& world, Exchange asked) {
  raise_when_read(SIGSTOP);
  return world.exchange(std::move(asked));
}

Work skips(World&, Exchange asked) {
  return Work(asked.op, [] {});
}

// The ranks of each group in another order.
Work meets_others(World& world, Exchange asked) {
  auto groups = std::make_shared<std::vector<Group>>();
  for (const auto& part : asked.parts) {
    auto& group = groups->emplace_back(*part.group);
    std::reverse(group.ranks.begin(), group.ranks.end());
    group.place = std::ssize(group.ranks) - 1 - group.place;
  }
  for (size_t i = 0; i < asked.parts.size(); ++i) asked.parts[i].group = &(*groups)[i];
  return world.exchange(std::move(asked)).then([groups] {});
}

template <Spoilt::Spoil spoil>
WorldPtr spoilt(WorldPtr world) {
  return std::make_shared<Spoilt>(std::move(world), spoil);
}

void swap_ends(PerRank<Received>& all, const std::vector<Group>&) {
  for (auto& pieces : all)
    if (pieces.front().sizes() == pieces.back().sizes()) std::swap(pieces.front(), pieces.back());
}
WorldPtr swaps(WorldPtr world) {
  return spoilt_world(std::move(world), {.gathered = swap_ends, .exchanged = swap_ends});
}

const std::map<std::string, LockstepEngine::Decorate> kModes = {
    {"well", nullptr},        {"dies", spoilt<dies>}, {"stalls", spoilt<stalls>},
    {"skips", spoilt<skips>}, {"swaps", swaps},       {"other-group", spoilt<meets_others>},
    {"elsewhere", nullptr},
};

// ranks MODE --process 1/4 --meet FILE --patience SECONDS --log FILE --flight FILE
int main(char** argv) {
  const std::string mode = argv[1];
  const auto numbers = *parse_integers(argv[3], '/');
  Seat seat{numbers[0], numbers[1], {.file = argv[5]}, concat("process ", getpid(), ", log ", argv[9]), {}};
  seat.patience = patience_of(std::stod(argv[7]));
  seat.to_meet = std::chrono::minutes(1);
  const bool spoils = seat.process == 1;
  if (spoils && mode == "elsewhere") return 9;
  flights = std::make_shared<FlightMemory>(kMostRanks, open(argv[11], O_RDWR | O_CLOEXEC));
  return serve_ranks(STDIN_FILENO, STDOUT_FILENO, seat, [&](WorldPtr world, const std::string&) {
    world = recorded(std::move(world), flights);
    return spoils && kModes.at(mode) ? kModes.at(mode)(std::move(world)) : world;
  });
}

}  // namespace
}  // namespace lockstep::suites

int main(int, char** argv) {
  lockstep::enter_lane(lockstep::Lane::kExact, argv);
  return lockstep::suites::main(argv);
}
