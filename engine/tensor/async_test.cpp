// SPDX-License-Identifier: Apache-2.0
// Redistributions that are begun and waited for later, among other ops, in another order, or never.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <c10/core/InferenceMode.h>

#include "engine/tensor/testing.h"
#include "engine/tensor/timeline_log.h"
#include "engine/values/refused.h"
#include "engine/world/bits.h"
#include "engine/world/flight_log.h"
#include "engine/world/thread_world.h"
#include "engine/world/world.h"

namespace lockstep {
namespace {

bool same_locals(const at::Tensor& a, const at::Tensor& b) {
  const auto &left = local_tensors(a), &right = local_tensors(b);
  for (size_t i = 0; i < left.size(); ++i)
    if (!same_bits(left[i], right[i]) || left[i].strides() != right[i].strides()) return false;
  return spec(a) == spec(b);
}

// For a while Worlds look for who touches what is in flight.
struct Checked {
  bool before = checks_in_flight.exchange(true);
  ~Checked() { checks_in_flight = before; }
};

// The value of a case of these tests, in each pair of placements; begun in a row, other ops between, and used
// from the last to the first. @returns the pairs whose bits are not those of a redistribution that waits at
// once.
std::vector<std::string> wrong_pairs(const MeshInWorld& mesh) {
  const auto value = ramp({5, 7});
  const auto choices = placement_choices(2);
  std::vector<at::Tensor> begun, expected;
  std::vector<std::string> names, wrong;
  for (const auto& a : choices)
    for (const auto& b : choices) {
      const auto from = distribute_tensor(value, mesh, {a, Shard{0}});
      begun.push_back(redistribute(from, {b, Replicate{}}, {}, true));
      names.push_back(concat(to_string(placements(from)), " -> ", to_string(placements(begun.back()))));
      expected.push_back(redistribute(from, {b, Replicate{}}));
      from.neg();
    }
  for (size_t k = begun.size(); k-- > 0;)
    if (!same_locals(begun[k], expected[k])) wrong.push_back(names[k]);
  return wrong;
}

// Catches: bits that depend on when, or in which order, exchanges are waited for; buffers that two of them
// share.
TEST(Async, WaitedInAnotherOrder) {
  const Checked checks;
  EXPECT_EQ(wrong_pairs(init_device_mesh({2, 3})), std::vector<std::string>());
  EXPECT_EQ(take_never_waited(), std::vector<std::string>());
}

// Catches: a wait that needs the other ranks to wait in the same order.
TEST(Async, WaitedInAnotherOrderOnThreads) {
  const Checked checks;
  run_on_threads(4, std::chrono::minutes(1), [](const WorldPtr& world) {
    EXPECT_EQ(wrong_pairs(init_device_mesh({2, 2}, {}, world)), std::vector<std::string>());
    const auto mesh = init_device_mesh({4}, {}, world);
    const auto x = distribute_tensor(ramp({8}), mesh, {Shard{0}});
    auto one = redistribute(x, {Replicate{}}, {}, true), two = redistribute(x.neg(), {Replicate{}}, {}, true);
    if (world->hosted().front() % 2 == 0) std::swap(one, two);
    wait_tensor(two);
    EXPECT_TRUE(same_bits(full_tensor(one).abs(), full_tensor(two).abs()));
  });
}

// Catches: an exchange that is waited for at once, so that nothing overlaps; a use that does not wait.
TEST(Async, TheFirstUseWaits) {
  const auto memory = std::make_shared<FlightMemory>(2);
  const auto mesh = init_device_mesh({2}, {}, recorded(local_world(2), memory));
  const auto x = distribute_tensor(ramp({4}), mesh, {Shard{0}});
  const auto state = [&] { return flight_of(memory->of(1), 1, 2, "", "").entries.back().state; };
  const std::vector<std::function<void(const at::Tensor&)>> uses = {
      [](const at::Tensor& t) { wait_tensor(t); }, [](const at::Tensor& t) { t.add(1); },
      [](const at::Tensor& t) { to_local(t); },    [](const at::Tensor& t) { full_tensor(t); },
      [](const at::Tensor& t) { t.view({2, 2}); }, [](const at::Tensor& t) { local_tensors(t); },
      [](const at::Tensor& t) { t.sum().item(); }};
  for (const auto& use : uses) {
    const auto y = redistribute(x, {Replicate{}}, {}, true);
    EXPECT_EQ(state(), FlightState::kBegun);
    EXPECT_EQ(y.sizes(), x.sizes());
    EXPECT_EQ(state(), FlightState::kBegun) << "its shape is known before";
    use(y);
    EXPECT_EQ(state(), FlightState::kDone);
  }
}

// Catches: a result that nobody used and nobody hears of; peers that wait for ever for it; one that is named
// though a copy of it was used.
TEST(Async, ResultsThatNobodyUsesAreNamed) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(ramp({4, 3}), mesh, {Shard{0}});
  redistribute(x, {Replicate{}}, {}, true);
  EXPECT_EQ(take_never_waited(), std::vector<std::string>{"[redistribute] f32[4x3]@[S0] -> [R]"});
  const auto used = redistribute(x, {Replicate{}}, {}, true);
  used.detach().neg();
  redistribute(x, {Replicate{}}, {}, true).detach().neg();
  EXPECT_EQ(take_never_waited(), std::vector<std::string>());
  run_on_threads(2, std::chrono::minutes(1), [](const WorldPtr& world) {
    const auto own = init_device_mesh({2}, {}, world);
    const auto t = distribute_tensor(ramp({4}), own, {Shard{0}});
    const bool first = world->hosted().front() == 0;
    if (first)
      redistribute(t, {Replicate{}}, {}, true);
    else
      EXPECT_TRUE(same_bits(full_tensor(redistribute(t, {Replicate{}}, {}, true)), ramp({4})));
    EXPECT_EQ(take_never_waited().size(), first ? 1u : 0u);
  });
}

// Why `f` is refused; "" if it is not.
template <class F>
std::string refused(F&& f) {
  try {
    f();
  } catch (const Refused& e) {
    return concat(name(e.why), ": ", e.what());
  }
  return "";
}

// Catches: a write to what is sent, in place, through a view, by an out variant or in a list, that passes;
// one that is refused although it writes elsewhere, or after the wait; a message without op, what is in
// flight, or remedy.
TEST(Async, WritesToWhatIsInFlightAreRefused) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(ramp({4, 3}), mesh, {Shard{0}}), z = x.clone(), before = x.clone();
  const std::vector<std::function<void()>> writes = {[&] { x.add_(1); },
                                                     [&] { x.t().zero_(); },
                                                     [&] { x.uniform_(); },
                                                     [&] { at::add_out(const_cast<at::Tensor&>(x), z, z); },
                                                     [&] { x.copy_(z); },
                                                     [&] {
                                                       at::_foreach_add_({z, x}, 1);
                                                     },
                                                     [&] { x.select(1, 0).fill_(2); }};
  for (const auto& target : {Placement(Replicate{}), Placement(Shard{1}), Placement(Shard{0})}) {
    const auto y = redistribute(x, {target}, {}, true);
    for (const auto& write : writes)
      EXPECT_TRUE(
          says(refused(write), {"in flight: [aten::", "writes to what [redistribute] f32[4x3]@[S0] -> [",
                                "still sends; wait_tensor() its result before, or write to a clone"}))
          << refused(write);
    EXPECT_TRUE(same_locals(x, before));
    EXPECT_EQ(refused([&] { z.add_(0), x.add(1), y.add_(1); }), "");
    EXPECT_EQ(refused([&] { x.add_(0); }), "") << "its result has been used";
  }
}

// Catches: a write past the engine, to a local of what is sent, which some ranks would receive and others
// not.
TEST(Async, WritesToLocalsInFlightAreFound) {
  const Checked checks;
  const auto writes = [](const WorldPtr& world) {
    const auto mesh = init_device_mesh({2}, {}, world);
    const auto x = distribute_tensor(ramp({4}), mesh, {Shard{0}});
    const auto y = redistribute(x, {Replicate{}}, {}, true);
    to_local(x)[0].add_(1);
    const auto text = error_of([&] { wait_tensor(y); });
    EXPECT_EQ(error_of([&] { y.neg(); }), text) << "a wait that failed fails again";
    return text;
  };
  const char* said = "was written before the exchange was waited for";
  EXPECT_TRUE(says(writes(local_world(2)), {said}));
  run_on_threads(2, std::chrono::minutes(1),
                 [&](const WorldPtr& world) { EXPECT_TRUE(says(writes(world), {said})); });
}

// Catches: locals that are made by the mode of the wait, which autograd then refuses to save.
TEST(Async, TheModeIsThatOfTheBeginning) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(ramp({4}), mesh, {Partial{}});
  const auto y = redistribute(x, {Replicate{}}, {}, true);
  {
    const c10::InferenceMode mode;
    wait_tensor(y);
  }
  EXPECT_FALSE(to_local(y)[0].is_inference());
}

// Catches: a gradient that does not flow through what is in flight.
TEST(Async, GradientsFlow) {
  const auto mesh = init_device_mesh({2});
  for (const bool async_op : {false, true}) {
    const auto x = distribute_tensor(ramp({4}).requires_grad_(), mesh, {Shard{0}});
    const auto y = redistribute(x, {Replicate{}}, {}, async_op);
    y.mul(y).sum().backward();
    EXPECT_TRUE(same_bits(full_tensor(x.grad()), ramp({4}).mul(2))) << async_op;
  }
}

// Catches: an entry that stands elsewhere than in the Program, or that nothing is written to when it has
// arrived.
TEST(Async, TheTimelineHasItWhereItBegan) {
  const auto mesh = init_device_mesh({2});
  const auto x = distribute_tensor(ramp({4}), mesh, {Shard{0}});
  Timeline timeline;
  const TimelineScope scope(timeline);
  const auto y = redistribute(x, {Replicate{}}, {}, true);
  x.neg();
  y.abs();
  ASSERT_EQ(timeline.size(), 3u);
  EXPECT_EQ(timeline[0].op, "lockstep::redistribute");
  EXPECT_EQ(timeline[1].op, "aten::neg");
  EXPECT_EQ(timeline[0].outputs.at(0).digests, timeline[2].inputs[0].digests);
  EXPECT_EQ(timeline[2].op, "aten::abs");
}

}  // namespace
}  // namespace lockstep
