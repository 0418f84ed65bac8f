// SPDX-License-Identifier: Apache-2.0
#include "engine/world/c10d_world.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <thread>

#include "engine/values/as_size.h"
#include "engine/world/packing.h"
#include "engine/world/testing_conformance.h"

namespace lockstep {
namespace {

// What one process tells another, of the World with a number, of so many ranks.
enum Kind : int64_t { kPosts, kEnded, kWaits, kSays };

Packer message(int64_t number, int64_t n, Kind kind) {
  Packer packer;
  for (const int64_t value : {number, n, static_cast<int64_t>(kind)}) packer.number(value);
  return packer;
}

bool any_of(const std::vector<int64_t>& ranks, const Meeting& meeting) {
  for (const int64_t rank : meeting.ranks)
    if (!ranks.empty() && ranks.front() <= rank && rank <= ranks.back()) return true;
  return false;
}

// Of which World a process was heard in last.
struct Heard {
  int64_t number = -1;
  bool has_left = true;
  bool spoilt = false;  // and then came what nobody can read, of a World that is to come
};

}  // namespace

std::vector<int64_t> hosted_ranks(int64_t n, int64_t processes, int64_t process) {
  const int64_t each = n / processes, longer = n % processes;
  std::vector<int64_t> ranks = up_to(each + (process < longer ? 1 : 0));
  for (auto& rank : ranks) rank += process * each + std::min(process, longer);
  return ranks;
}

struct Processes::Impl {
  explicit Impl(Seat s)
      : seat(std::move(s)),
        group(seat.at, seat.process, seat.processes, seat.to_meet),
        where(group.say("where", seat.where)),
        lost(as_size(seat.processes)),
        heard(as_size(seat.processes)),
        words(as_size(seat.processes)) {
    for (int64_t process = 0; process < seat.processes; ++process)
      if (process != seat.process) listeners.emplace_back([this, process] { listen(process); });
  }
  // What others still wait for goes first; one that does not take it does not keep this process for long.
  ~Impl() {
    group.settle(std::min<Patience>(seat.patience, std::chrono::seconds(10)));
    group.close();
  }

  std::vector<int64_t> ranks_of(int64_t n, int64_t process) const {
    return hosted_ranks(n, seat.processes, process);
  }

  // The board of a World that goes on, or is to come; null: it is over.
  std::shared_ptr<Board> board_of(int64_t number, int64_t n) {
    const std::lock_guard lock(mutex);
    if (number < next) return nullptr;
    auto& board = boards[number];
    if (board != nullptr) return board;
    board = std::make_shared<Board>(n, ranks_of(n, seat.process), seat.patience);
    board->tell_waits([this, number, n](int64_t rank, int64_t other) {
      auto packer = message(number, n, kWaits);
      packer.number(rank);
      packer.number(other);
      tell(n, std::move(packer).take());
    });
    for (int64_t process = 0; process < seat.processes; ++process)
      for (const int64_t rank : ranks_of(n, process)) {
        board->locate(rank, where[as_size(process)]);
        if (const auto& why = lost[as_size(process)]; !why.empty()) board->end(rank, why);
      }
    for (int64_t process = 0; process < seat.processes; ++process)
      if (heard[as_size(process)].spoilt) spoil(process);
    return board;
  }

  void listen(int64_t process) {
    try {
      while (true) receive(process);
    } catch (const std::exception& e) {
      ends(process, concat("its connection is lost: ", e.what()));
      group.forget(process);
    }
  }

  // A message and its checksum.
  void receive(int64_t process) {
    const auto bytes = group.receive(process);
    const auto* data = static_cast<const char*>(bytes.const_data_ptr());
    const int64_t size = bytes.numel() - static_cast<int64_t>(sizeof(uint64_t));
    uint64_t sum = 0;
    if (size >= 0) std::memcpy(&sum, data + size, sizeof sum);
    if (size >= 0 && sum == checksum({data, as_size(size)}))
      return hear(process, Unpacker(bytes.narrow(0, 0, size)));
    const std::lock_guard lock(mutex);
    spoil(process);
  }

  // A message arrived with other bits than it left with, so that it cannot say of which World it is: of the
  // one that the process was heard in last, or, where it has left that, of the first later one that it has
  // ranks in, which may be to come.
  void spoil(int64_t process) {
    auto& last = heard[as_size(process)];
    last.spoilt = last.has_left || last.number >= next;
    for (const auto& [number, board] : boards) {
      const auto ranks = ranks_of(board->size(), process);
      if (ranks.empty() || number < last.number + last.has_left || !last.spoilt) continue;
      for (const int64_t rank : ranks)
        board->end(rank, "a message of it arrived with other bits than it left with");
      last.spoilt = false;
    }
  }

  void ends(int64_t process, const std::string& text) {
    const std::lock_guard lock(mutex);
    lost[as_size(process)] = text;
    for (const auto& [number, board] : boards)
      for (const int64_t rank : ranks_of(board->size(), process)) board->end(rank, text);
    said_or_lost.notify_all();
  }

  void hear(int64_t process, Unpacker said) {
    const int64_t number = said.number(), n = said.number(), kind = said.number();
    if (kind == kSays) {
      const std::lock_guard lock(mutex);
      words[as_size(process)].push_back(said.text());
      return said_or_lost.notify_all();
    }
    const auto board = board_of(number, n);
    {
      const std::lock_guard lock(mutex);
      auto& last = heard[as_size(process)];
      last.number = number, last.has_left = kind == kEnded;
    }
    if (board == nullptr) return;
    if (kind == kWaits) {
      const int64_t rank = said.number();
      board->waits(rank, said.number());
    } else if (kind == kEnded) {
      const auto why = said.text();
      for (const int64_t rank : ranks_of(n, process)) board->end(rank, why);
    } else {
      while (!said.done()) {
        const auto [meeting, place, post] = said.posted();
        board->post(meeting, place, post);
      }
    }
  }

  // Tells all other processes of a World of n ranks.
  void tell(int64_t n, const std::string& bytes) {
    for (int64_t process = 0; process < seat.processes; ++process)
      if (process != seat.process && !ranks_of(n, process).empty()) send(process, bytes);
  }
  void send(int64_t process, std::string bytes) {
    const auto sum = checksum(bytes);
    bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
    if (seat.wire) seat.wire(bytes);
    try {
      group.send(process, std::move(bytes));
    } catch (const std::exception&) {  // it is gone, which its listener says
    }
  }

  // Tells each process what its ranks are sent and asked.
  void publish(int64_t number, int64_t n, const std::vector<Posted>& posts) {
    for (int64_t process = 0; process < seat.processes; ++process) {
      const auto ranks = ranks_of(n, process);
      if (process == seat.process || ranks.empty()) continue;
      auto packer = message(number, n, kPosts);
      bool any = false;
      for (const auto& posted : posts)
        if (any_of(ranks, posted.meeting)) packer.posted(posted, ranks), any = true;
      if (any) send(process, std::move(packer).take());
    }
  }

  void end(int64_t number, int64_t n, const std::string& why) {
    auto packer = message(number, n, kEnded);
    packer.text(why);
    tell(n, std::move(packer).take());
    const std::lock_guard lock(mutex);
    next = number + 1;
    boards.erase(boards.begin(), boards.upper_bound(number));
  }

  const Seat seat;
  GlooGroup group;
  const std::vector<std::string> where;  // by process
  std::mutex mutex;                      // of all below
  std::vector<std::string> lost;         // by process: why; "": it is here
  std::vector<Heard> heard;              // by process
  std::map<int64_t, std::shared_ptr<Board>> boards;
  int64_t next = 0;                            // the Worlds before are over
  std::vector<std::deque<std::string>> words;  // by process: said, and not yet heard
  std::condition_variable said_or_lost;
  std::vector<std::jthread> listeners;
};

Processes::Processes(Seat seat) : impl_(std::make_unique<Impl>(std::move(seat))) {}
Processes::~Processes() = default;

bool Processes::connected() const {
  const std::lock_guard lock(impl_->mutex);
  return std::all_of(impl_->lost.begin(), impl_->lost.end(), [](const auto& why) { return why.empty(); });
}

WorldPtr Processes::begin(int64_t number, int64_t n) {
  auto board = impl_->board_of(number, n);
  LOCKSTEP_CHECK(board != nullptr, "[gloo] the world of number ", number, " is over");
  return board_world("gloo", std::move(board), impl_->ranks_of(n, impl_->seat.process),
                     [this, number, n](const auto& posts) { impl_->publish(number, n, posts); });
}

void Processes::end(int64_t number, int64_t n, const std::string& why) {
  impl_->end(number, n, why);
}

void Processes::run(int64_t number, int64_t n, const std::function<void(const WorldPtr& world)>& body) {
  try {
    body(begin(number, n));
  } catch (const std::exception& e) {
    end(number, n, e.what());
    throw;
  }
  end(number, n, "its program is done");
  settle();
}

void Processes::say(int64_t process, const std::string& words) {
  auto packer = message(0, 0, kSays);
  packer.text(words);
  impl_->send(process, std::move(packer).take());
}

void Processes::settle() {
  impl_->group.settle(impl_->seat.patience);
}

std::string Processes::hear(int64_t process, Patience patience) {
  std::unique_lock lock(impl_->mutex);
  auto& words = impl_->words.at(as_size(process));
  const auto& lost = impl_->lost.at(as_size(process));
  impl_->said_or_lost.wait_for(lock, patience, [&] { return !words.empty() || !lost.empty(); });
  if (words.empty())
    throw RankLost(
        concat("[gloo] process ", process, " (", impl_->where[as_size(process)], ") ",
               lost.empty() ? concat("says nothing for ", patience.count(), " ms") : "is gone: " + lost));
  auto first = std::move(words.front());
  words.pop_front();
  return first;
}

void Processes::give_up(int64_t process) {
  impl_->group.forget(process);
}

std::string self_test(Processes& processes, int64_t n) {
  std::string wrong;
  processes.run(0, n, [&](const WorldPtr& world) { wrong = world_conformance(world, DeviceMesh({n})); });
  return wrong;
}

}  // namespace lockstep
