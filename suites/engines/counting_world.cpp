// SPDX-License-Identifier: Apache-2.0
#include "suites/engines/counting_world.h"

#include "engine/world/world.h"

namespace lockstep::suites {
namespace {

int64_t bytes_of(const std::vector<Parcel>& parcels, int64_t own_place) {
  int64_t n = 0;
  for (const auto& parcel : parcels)
    if (parcel.place != own_place) n += parcel.slab.nbytes();
  return n;
}

int64_t& sent_by(Traffic& traffic, int64_t rank) {
  const auto r = static_cast<size_t>(rank);
  if (traffic.sent.size() <= r) traffic.sent.resize(r + 1);
  return traffic.sent[r];
}

thread_local int uncounted = 0;

class CountingWorld : public World {
 public:
  using Of = std::function<Traffic&(const char* op)>;
  CountingWorld(WorldPtr world, Of of) : World(*world), world_(std::move(world)), of_(std::move(of)) {}

  Work exchange(Exchange asked) override {
    if (uncounted > 0) return world_->exchange(std::move(asked));
    auto& traffic = of_(asked.op);
    ++traffic.calls;
    for (const auto& part : asked.parts) {
      traffic.bytes += bytes_of(part.received, part.group->place);
      sent_by(traffic, part.group->self()) += bytes_of(part.sent, part.group->place);
    }
    return world_->exchange(std::move(asked));
  }
  Library* library() override { return world_->library(); }

 private:
  WorldPtr world_;
  const Of of_;
};

}  // namespace

Uncounted::Uncounted() {
  ++uncounted;
}

Uncounted::~Uncounted() {
  --uncounted;
}

Traffic& Traffic::operator+=(const Traffic& other) {
  calls += other.calls;
  bytes += other.bytes;
  for (size_t r = 0; r < other.sent.size(); ++r) sent_by(*this, static_cast<int64_t>(r)) += other.sent[r];
  return *this;
}

WorldPtr counting(WorldPtr world, Traffic& traffic) {
  return std::make_shared<CountingWorld>(std::move(world),
                                         [&traffic](const char*) -> Traffic& { return traffic; });
}

WorldPtr counting(WorldPtr world, TrafficByOp& traffic) {
  return std::make_shared<CountingWorld>(std::move(world),
                                         [&traffic](const char* op) -> Traffic& { return traffic[op]; });
}

}  // namespace lockstep::suites
