// SPDX-License-Identifier: Apache-2.0
// Faults of exchanges that overlap: what is wrong only where one has begun and another is still in flight, or
// where a redistribution is begun and not waited for.
#include <ATen/ATen.h>

#include "engine/tensor/dtensor.h"
#include "engine/world/comm.h"
#include "engine/world/world.h"
#include "suites/core/overlap.h"
#include "suites/faults/tables.h"

namespace lockstep::suites::plant {
namespace {

// An exchange that has begun, on its way to be spoilt.
struct Flight {
  Exchange asked;
  Arrived pieces;  // as they have arrived
  std::optional<Work> work = std::nullopt;
  bool overlapped = false;  // by one that began later
  Received kept{};          // what was sent, where it is written meanwhile

  void land() {
    if (work.has_value()) work->wait();
    work.reset();
  }
};
using FlightPtr = std::shared_ptr<Flight>;
using Flights = std::vector<FlightPtr>;

// What is done wrong. Null: nothing.
struct OverlapFault {
  void (*overlaps)(Flight& before) = nullptr;                        // another begins
  void (*arrives)(Flight& flight, const Flights& others) = nullptr;  // it is waited for, others still are not
};

// A World in which what arrives goes through the hands of a fault.
class OverlapWorld final : public World {
 public:
  OverlapWorld(WorldPtr world, OverlapFault fault)
      : World(*world), world_(std::move(world)), fault_(fault), flying_(std::make_shared<Flights>()) {}

  Work exchange(Exchange asked) override {
    for (const auto& before : *flying_) {
      before->overlapped = true;
      if (fault_.overlaps) fault_.overlaps(*before);
    }
    const char* op = asked.op;
    const size_t parts = asked.parts.size();
    const auto flight = std::make_shared<Flight>(Flight{std::move(asked), Arrived(parts)});
    auto inner = flight->asked;
    inner.arrived = [to = flight.get()](size_t i, size_t, const at::Tensor& piece) {
      to->pieces[i].push_back(piece.clone());
    };
    flight->work.emplace(world_->exchange(std::move(inner)));
    flying_->push_back(flight);
    return Work(op, [flight, flying = flying_, arrives = fault_.arrives] {
      std::erase(*flying, flight);
      flight->land();
      if (arrives) arrives(*flight, *flying);
      deliver(flight->asked, flight->pieces);
    });
  }
  Library* library() override { return world_->library(); }

 private:
  WorldPtr world_;
  const OverlapFault fault_;
  const std::shared_ptr<Flights> flying_;  // begun and not waited for, in the order of their beginnings
};

template <void (*overlaps)(Flight& before), void (*arrives)(Flight& flight, const Flights& others)>
WorldPtr overlap_world(WorldPtr world) {
  return std::make_shared<OverlapWorld>(std::move(world), OverlapFault{overlaps, arrives});
}

void wait_lost(Flight& flight, const Flights&) {
  if (!flight.overlapped) return;
  for (auto& piece : flight.pieces.back()) piece.zero_();
}

void half_there(Flight& flight, const Flights&) {
  if (!flight.overlapped) return;
  for (auto& pieces : flight.pieces)
    for (auto& piece : pieces) {
      auto flat = piece.contiguous().view({-1}).clone();
      flat.narrow(0, flat.numel() / 2, flat.numel() - flat.numel() / 2).zero_();
      piece = flat.view(piece.sizes());
    }
}

bool same_forms(const Arrived& a, const Arrived& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (size_t k = 0; k < a[i].size(); ++k)
      if (form(a[i][k]) != form(b[i][k])) return false;
  }
  return true;
}

// Of those in flight the first that began arrives for whoever waits first, where nobody sees it by the form.
void first_for_first(Flight& flight, const Flights& others) {
  if (others.empty()) return;
  auto& oldest = *others.front();
  oldest.land();
  if (same_forms(flight.pieces, oldest.pieces)) std::swap(flight.pieces, oldest.pieces);
}

void write_sent(Flight& before) {
  if (!before.kept.empty()) return;
  for (const auto& part : before.asked.parts)
    for (const auto& parcel : part.sent) before.kept.push_back(parcel.tensor().clone());
  for (const auto& part : before.asked.parts)
    for (const auto& parcel : part.sent) parcel.tensor().zero_();
}

void restore_sent(Flight& flight, const Flights&) {
  size_t next = 0;
  if (flight.kept.empty()) return;
  for (const auto& part : flight.asked.parts)
    for (const auto& parcel : part.sent) parcel.tensor().copy_(flight.kept[next++]);
}

void forget_in_flight(const at::Tensor& moved) {
  device_mesh(moved).comm->context->arriving.clear();
}

void wait_at_once(const at::Tensor& moved) {
  wait_tensor(moved);
}

void not_named(const oracle::Case&, EngineResult& result) {
  result.never_waited.clear();
}

void moved_twice(const oracle::Case& c, EngineResult& result) {
  if (overlap_of(c) != Overlap::kNone) result.bytes_moved *= 2;
}

bool redistributes(const oracle::Case& c) {
  return many_ranks(c) && !begun_by(c.program).empty();
}

}  // namespace

std::vector<Fault> overlap_faults() {
  return {
      {101, "overlapped-wait-lost", "K14",
       "the last rank does not wait for an exchange that another overlaps", "overlap", 300, 2, redistributes,
       with_world(overlap_world<nullptr, wait_lost>)},
      {102, "overlapped-read-early", "K14",
       "half of an exchange that another overlaps is there when it is read", "overlap", 300, 2, redistributes,
       with_world(overlap_world<nullptr, half_there>)},
      {103, "first-wait-gets-first", "K14",
       "whoever waits first is given what began first, if it has its forms", "overlap", 300, 2, redistributes,
       with_world(overlap_world<nullptr, first_for_first>)},
      {104, "written-in-flight", "K14", "what is sent is overwritten when the next exchange begins",
       "overlap", 300, 2, redistributes, with_world(overlap_world<write_sent, restore_sent>)},
      {105, "in-flight-forgotten", "K4", "a write to what is in flight is not refused", "overlap", 300, 1,
       redistributes, with_moved(forget_in_flight)},
      {106, "waited-at-once", "K14", "a redistribution that is begun is waited for at once", "overlap", 300,
       1, redistributes, with_moved(wait_at_once)},
      {107, "leak-not-named", "K11", "a result that goes without a wait is not named", "overlap", 300, 1,
       redistributes, with_result(not_named)},
      {108, "begun-sent-twice", "K11", "a redistribution that is begun is sent twice", "overlap", 300, 1,
       redistributes, with_result(moved_twice)},
  };
}

}  // namespace lockstep::suites::plant
