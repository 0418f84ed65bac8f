// SPDX-License-Identifier: Apache-2.0
// LocalWorld: every rank in this thread. Parcels are paired when an exchange begins and copied when it is
// waited for, so that nothing can be read before by luck.
#include <ATen/ATen.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <set>

#include "engine/values/as_size.h"
#include "engine/values/error.h"
#include "engine/values/text.h"
#include "engine/world/ask.h"
#include "engine/world/bits.h"

namespace lockstep {
namespace {

constexpr size_t kAbsent = static_cast<size_t>(-1);

// A parcel on its way to one rank.
struct Sent {
  int64_t rank = 0;
  const Slab* slab = nullptr;  // null: taken
};

// The first parcel from `rank` that nobody has taken yet. @post in the usual order, that of the parts,
// `first` is where to look.
const Slab* take(std::vector<Sent>& box, size_t& first, int64_t rank) {
  for (size_t i = first; i < box.size(); ++i) {
    if (box[i].rank != rank || box[i].slab == nullptr) continue;
    const auto* slab = std::exchange(box[i].slab, nullptr);
    while (first < box.size() && box[first].slab == nullptr) ++first;
    return slab;
  }
  return nullptr;
}

bool same_form(const Slab& a, const Slab& b) {
  return a.of.scalar_type() == b.of.scalar_type() && same_sizes(a, b);
}

bool same_memory(const Slab& a, const Slab& b) {
  return a.of.strides() == b.of.strides() && a.const_data_ptr() == b.const_data_ptr();
}

// An exchange that has begun.
class Flight {
 public:
  Flight(Exchange asked, int64_t world)
      : asked_(std::move(asked)), part_of_(static_cast<size_t>(world), kAbsent) {
    for (size_t i = 0; i < asked_.parts.size(); ++i) part_of_[at(asked_.parts[i].group->self())] = i;
    pair();
    if (checks_in_flight) guard();
  }

  void land() const {
    if (!guarded_.empty()) inspect();
    for (size_t i = 0; i < from_.size(); ++i)
      for (size_t k = 0; k < from_[i].size(); ++k) {
        if (asked_.arrived)
          asked_.arrived(i, k, from_[i][k]->tensor());
        else if (const auto& into = asked_.parts[i].received[k].slab; !same_memory(into, *from_[i][k]))
          copy_bits(into, *from_[i][k]);
      }
  }

  // What sends a tensor that this exchange is to fill has read it too early.
  void refuse_readers(const Exchange& next) const {
    std::set<const c10::StorageImpl*> storages;
    each_to_fill([&](int64_t, const at::Tensor& into) { storages.insert(storage(into)); });
    for (const auto& part : next.parts)
      for (const auto& sent : part.sent) {
        if (!storages.contains(storage(sent.slab.of))) continue;
        each_to_fill([&](int64_t, const at::Tensor& into) {
          LOCKSTEP_CHECK(!overlap(sent.tensor(), into), "[", next.op, "] rank ", part.group->self(),
                         " sends what ", asked_.op, " has not delivered yet; wait for it first");
        });
      }
  }

 private:
  static size_t at(int64_t rank) { return static_cast<size_t>(rank); }
  static const c10::StorageImpl* storage(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }

  // The part of the rank that `part` names by its place.
  size_t peer(const Part& part, int64_t place) const {
    const int64_t rank = part.group->ranks[at(place)];
    LOCKSTEP_CHECK(part_of_[at(rank)] != kAbsent, "[", asked_.op, "] rank ", part.group->self(),
                   " names rank ", rank, ", which does not take part");
    return part_of_[at(rank)];
  }

  [[noreturn]] void disagree(size_t i, size_t j) const {
    const auto& a = asked_.parts[i];
    const auto& b = asked_.parts[j];
    const auto place = [](const Part& part, int64_t rank) {
      const auto& ranks = part.group->ranks;
      return std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
    };
    agree(concat("one of ranks ", join(a.group->ranks, ',')), a.group->self(),
          ask(asked_.op, a, place(a, b.group->self())), b.group->self(),
          ask(asked_.op, b, place(b, a.group->self())));
    throw Error(concat("[", asked_.op, "] ranks ", a.group->self(), " and ", b.group->self(),
                       " name their parcels in different orders"));
  }

  void pair() {
    const auto& parts = asked_.parts;
    std::vector<std::vector<Sent>> boxes(parts.size());
    for (size_t i = 0; i < parts.size(); ++i) boxes[i].reserve(parts[i].received.size());
    for (const auto& part : parts)
      for (const auto& parcel : part.sent)
        boxes[peer(part, parcel.place)].push_back({part.group->self(), &parcel.slab});
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& mine = from_.emplace_back();
      mine.reserve(parts[i].received.size());
      size_t first = 0;
      for (const auto& parcel : parts[i].received) {
        const size_t j = peer(parts[i], parcel.place);
        mine.push_back(take(boxes[i], first, parts[j].group->self()));
        if (mine.back() == nullptr || !same_form(*mine.back(), parcel.slab)) disagree(i, j);
      }
      for (const auto& left : boxes[i])
        if (left.slab != nullptr) disagree(i, part_of_[at(left.rank)]);
    }
  }

  template <class F>
  void each_to_fill(F&& f) const {
    if (asked_.arrived) return;
    for (size_t i = 0; i < from_.size(); ++i)
      for (size_t k = 0; k < from_[i].size(); ++k)
        if (const auto& into = asked_.parts[i].received[k].slab; !same_memory(into, *from_[i][k]))
          f(asked_.parts[i].group->self(), into.tensor());
  }

  // Bits, where clone() copies values: a bool that is neither of the two becomes one of them.
  static at::Tensor bits_of(const at::Tensor& tensor) {
    auto bits = at::empty_like(tensor, at::MemoryFormat::Contiguous);
    copy_bits(bits, tensor);
    return bits;
  }

  void guard() {
    for (const auto& part : asked_.parts)
      for (const auto& parcel : part.sent) guarded_.emplace_back(parcel.tensor(), bits_of(parcel.tensor()));
    each_to_fill([](int64_t, const at::Tensor& into) { poison(into); });
  }

  void inspect() const {
    for (const auto& [sent, before] : guarded_)
      LOCKSTEP_CHECK(same_bits(sent, before), "[", asked_.op, "] a tensor that is sent, ", form(sent),
                     ", was written before the exchange was waited for");
    each_to_fill([&](int64_t rank, const at::Tensor& into) {
      LOCKSTEP_CHECK(is_poisoned(into), "[", asked_.op, "] what rank ", rank, " receives, ", form(into),
                     ", was written before the exchange was waited for");
    });
  }

  Exchange asked_;
  std::vector<size_t> part_of_;                             // by rank
  PerRank<std::vector<const Slab*>> from_;                  // [part][parcel received]
  std::vector<std::pair<at::Tensor, at::Tensor>> guarded_;  // what is sent, and its bits when it began
};

class LocalWorld final : public World {
 public:
  LocalWorld(int64_t n, c10::Device device) : World("local", n, up_to(n), device) {}

  Work exchange(Exchange asked) override {
    std::erase_if(flights_, [](const auto& flight) { return flight.expired(); });
    for (const auto& flight : flights_) flight.lock()->refuse_readers(asked);
    const char* op = asked.op;
    auto flight = std::make_shared<const Flight>(std::move(asked), size());
    flights_.push_back(flight);
    return Work(op, [flight = std::move(flight)] { flight->land(); });
  }

 private:
  std::vector<std::weak_ptr<const Flight>> flights_;  // some of them have landed
};

}  // namespace

WorldPtr local_world(int64_t n, c10::Device device) {
  LOCKSTEP_CHECK(n >= 1, "[local_world] a world needs at least one rank, not ", n);
  // As its tensors say: libtorch compares devices with their numbers.
  if (device.is_cuda() && !device.has_index())
    device = c10::impl::getDeviceGuardImpl(device.type())->getDevice();
  return std::make_shared<LocalWorld>(n, device);
}

}  // namespace lockstep
