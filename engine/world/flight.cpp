// SPDX-License-Identifier: Apache-2.0
#include "engine/world/flight.h"

#include <ATen/ATen.h>
#include <sys/mman.h>
#include <unistd.h>

#include <charconv>
#include <map>
#include <string_view>

#include "engine/context/asking.h"
#include "engine/context/context.h"
#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/spec.h"
#include "engine/world/board.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

// Writes into room that is given, and never more.
class Line {
 public:
  template <size_t N>
  explicit Line(char (&room)[N]) : at_(room), end_(room + N - 1) {}
  ~Line() { *at_ = '\0'; }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  void text(std::string_view text) {
    if (std::ssize(text) <= end_ - at_ - 1) {
      at_ = std::copy(text.begin(), text.end(), at_);
    } else if (at_ < end_) {
      *at_++ = '~';
      end_ = at_;
    }
  }
  void number(int64_t value) {
    char digits[24];
    text({digits, std::to_chars(digits, digits + sizeof digits, value).ptr});
  }

 private:
  char *at_, *end_;
};

void form_of(const at::Tensor& tensor, Line& line) {
  line.text(dtype_name(tensor.scalar_type()));
  line.text("[");
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d > 0) line.text("x");
    line.number(tensor.size(d));
  }
  line.text("]");
}

// "0:f32[2x3] 1:f32[2x3]+f32[4]". @returns their bytes.
template <size_t N>
int64_t list(char (&room)[N], const std::vector<Parcel>& parcels, int64_t own) {
  Line line(room);
  int64_t bytes = 0, last = -1;
  for (const auto& [place, slab] : parcels) {
    if (place == own) continue;
    if (place != last) {
      if (last >= 0) line.text(" ");
      line.number(place);
    }
    line.text(place != last ? ":" : "+");
    form_of(slab.tensor(), line);
    bytes += slab.nbytes();
    last = place;
  }
  return bytes;
}

template <size_t N>
void put(char (&room)[N], std::string_view text) {
  Line(room).text(text);
}

// A record, as long as no other has taken its place in the ring.
struct Kept {
  FlightRecord* record;
  int64_t number;
  void set(FlightState state) const {
    if (record->number == number) record->state = state;
  }
};

class RecordedWorld final : public World {
 public:
  RecordedWorld(WorldPtr world, std::shared_ptr<FlightMemory> memory, std::function<std::string()> told)
      : World(*world), world_(std::move(world)), memory_(std::move(memory)), told_(std::move(told)) {}
  Library* library() override { return world_->library(); }

  Work exchange(Exchange asked) override {
    std::vector<Kept> mine;
    mine.reserve(asked.parts.size());
    for (const auto& part : asked.parts) mine.push_back(keep(asked.op, part));
    const auto all = [mine = std::move(mine), memory = memory_](FlightState state) {
      for (const auto& kept : mine) kept.set(state);
    };
    auto work = saying(told_, [&] { return world_->exchange(std::move(asked)); });
    return std::move(work).around([all, told = told_](const auto& finish) {
      all(FlightState::kWaited);
      saying(told, finish);
      all(FlightState::kDone);
    });
  }

 private:
  Kept keep(const char* op, const Part& part) {
    const auto& context = *current_context();
    auto& ring = memory_->of(part.group->self());
    auto& record = ring.records[ring.count % FlightRing::kLength];
    record.number = ring.count + 1;
    record.meeting = ++begun_[{part.group->ranks, part.group->place}];
    record.state = FlightState::kBegun;
    record.entry = context.timeline == nullptr ? -1 : std::ssize(*context.timeline);
    put(record.asker, Asking::now());
    put(record.op, op);
    Line ranks(record.ranks);
    for (size_t i = 0; i < part.group->ranks.size(); ++i) {
      if (i > 0) ranks.text(",");
      ranks.number(part.group->ranks[i]);
    }
    record.sent = list(record.sends, part.sent, part.group->place);
    record.received = list(record.expects, part.received, part.group->place);
    ring.count = record.number;
    return {&record, record.number};
  }

  WorldPtr world_;
  std::shared_ptr<FlightMemory> memory_;
  std::function<std::string()> told_;
  std::map<std::pair<std::vector<int64_t>, int64_t>, int64_t> begun_;  // exchanges, by group and place
};

}  // namespace

FlightMemory::FlightMemory(int64_t ranks, int fd) : ranks_(ranks) {
  const auto bytes = as_size(ranks) * sizeof(FlightRing);
  const bool made = fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) == 0;
  const int kind = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* at = made ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind, fd, 0) : MAP_FAILED;
  LOCKSTEP_CHECK(at != MAP_FAILED, "[flight] no memory for what ", ranks, " ranks do");
  rings_ = static_cast<FlightRing*>(at);
}

FlightMemory::~FlightMemory() {
  munmap(rings_, as_size(ranks_) * sizeof(FlightRing));
}

FlightRing& FlightMemory::of(int64_t rank) const {
  LOCKSTEP_CHECK(rank >= 0 && rank < ranks_, "[flight] there is room for ", ranks_,
                 " ranks, and none for rank ", rank);
  return rings_[rank];
}

void FlightMemory::clear(int64_t n) const {
  for (int64_t rank = 0; rank < n; ++rank) of(rank).count = 0;
}

WorldPtr recorded(WorldPtr world, std::shared_ptr<FlightMemory> memory, std::function<std::string()> told) {
  return std::make_shared<RecordedWorld>(std::move(world), std::move(memory), std::move(told));
}

}  // namespace lockstep
