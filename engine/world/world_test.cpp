// SPDX-License-Identifier: Apache-2.0
// Worlds conform: they move bits, add nothing, and a world of one is the identity; what is read, written or
// forgotten while it is in flight is an error. The suites' decorators are held against the same conformance
// in suites/engines/worlds_test.cpp.
#include "engine/world/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "engine/world/bits.h"
#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/testing_conformance.h"

namespace lockstep {
namespace {

void conforms(const WorldPtr& world, const DeviceMesh& mesh) {
  EXPECT_EQ(world_conformance(world, mesh), "");
}

// What `f` is told; empty: nothing.
template <class F>
std::string told(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

struct InFlight : testing::Test {
  InFlight() { checks_in_flight = true; }
  ~InFlight() override { checks_in_flight = false; }

  WorldPtr world = local_world(2);
  Comm comm{DeviceMesh({2}), world};
  PerRank<at::Tensor> sent{at::full({3}, 1.5), at::full({3}, 2.5)};
  PerRank<Buffers> into{{at::zeros({3}), at::zeros({3})}, {at::zeros({3}), at::zeros({3})}};
  Work gather() { return all_gather(*world, comm.along[0], sent, into); }
};

// Catches: groups along the wrong mesh dimension (equal sizes would hide it), transposed all-to-all.
TEST(WorldTest, LocalWorldConforms) {
  for (const bool checked : {false, true}) {
    checks_in_flight = checked;
    conforms(local_world(6), DeviceMesh({2, 3}));
    conforms(local_world(8), DeviceMesh({2, 2, 2}));
    conforms(local_world(1), DeviceMesh({1}));
  }
  checks_in_flight = false;
  conforms(local_world(33), DeviceMesh({33}));
}

// Catches: positions taken for ranks.
TEST(WorldTest, SubMeshesKeepTheirRanks) {
  const auto mesh = DeviceMesh({2, 3}, {"dp", "tp"}).sub_mesh({"tp"}, 4);
  EXPECT_EQ(mesh.ranks(), (std::vector<int64_t>{3, 4, 5}));
  conforms(local_world(6), mesh);
}

TEST(WorldTest, RefusesAMeshThatDoesNotFit) {
  EXPECT_THROW(Comm(DeviceMesh({4}), local_world(2)), Error);
  EXPECT_THROW(local_world(0), Error);
  EXPECT_THROW(world_conformance(lone_world(2, 1), DeviceMesh({2})), Error);
}

// Catches: bits that arrive before the wait, so that a program that forgets it goes unseen.
TEST_F(InFlight, NothingArrivesBeforeTheWait) {
  auto work = gather();
  for (const auto& buffers : into)
    for (const auto& buffer : buffers) EXPECT_TRUE(is_poisoned(buffer.of)) << buffer.of;
  work.wait();
  EXPECT_TRUE(into[1][0].of.equal(sent[0]));
  EXPECT_NE(told([&] { work.wait(); }).find("waited for already"), std::string::npos);
}

// Catches: an exchange that sends what another one has yet to deliver.
TEST_F(InFlight, SendingWhatHasNotArrivedIsAnError) {
  auto work = gather();
  const PerRank<at::Tensor> chained{into[0][1].of, sent[1]};
  EXPECT_NE(told([&] {
              all_gather(*world, comm.along[0], chained, [](size_t, const at::Tensor&) {}).wait();
            }).find("has not delivered yet"),
            std::string::npos);
  work.wait();
}

// Catches: a buffer of an exchange that is used for something else before the wait.
TEST_F(InFlight, WritingBeforeTheWaitIsAnError) {
  auto sender = gather();
  sent[0].fill_(7);
  EXPECT_NE(told([&] { sender.wait(); }).find("a tensor that is sent"), std::string::npos);
  auto receiver = gather();
  into[1][0].of.fill_(7);
  EXPECT_NE(told([&] { receiver.wait(); }).find("what rank 1 receives"), std::string::npos);
}

// A bool whose byte is neither of the two, as memory that nobody has written may hold. Catches: a look at
// what is sent that goes by values, and takes the bits for written.
TEST_F(InFlight, BitsThatAreNoValueAreNotTakenForWritten) {
  sent = {at::full({3}, 0x58, at::kByte).view(at::kBool), at::full({3}, 1, at::kBool)};
  for (auto& buffers : into)
    for (auto& buffer : buffers) buffer = at::zeros({3}, at::kBool);
  EXPECT_EQ(told([&] { gather().wait(); }), "");
}

// Catches: a Work that is dropped, so that its buffers never get what they wait for.
TEST_F(InFlight, AWorkThatNobodyWaitsForIsAnError) {
  EXPECT_NE(told([&] { auto forgotten = gather(); }).find("[all_gather] was begun and never waited for"),
            std::string::npos);
  EXPECT_THROW(
      {
        auto work = gather();
        throw std::range_error("the error on its way is the one that is told");
      },
      std::range_error);
}

// Catches: pieces that are paired by luck: by position alone, or whatever their form.
TEST_F(InFlight, RanksThatAskForDifferentThingsAreTold) {
  into[0][1] = at::zeros({3}, at::kDouble);
  EXPECT_EQ(
      told([&] { gather().wait(); }),
      "[all_gather] in one of ranks 0,1 rank 0 asks for all_gather, sends rank 1 f32[3] and expects "
      "f64[3]; rank 1 asks for all_gather, sends rank 0 f32[3] and expects f32[3]; all ranks of a group "
      "ask for the same, in the same order");
  const Groups& groups = comm.along[0];
  const Exchange unexpected{"exchange", {{&groups[0], {{1, sent[0]}}, {}}, {&groups[1], {}, {}}}, nullptr};
  EXPECT_NE(told([&] { world->exchange(unexpected).wait(); }).find("sends rank 1 f32[3]"), std::string::npos);
  const Exchange absent{"exchange", {{&groups[0], {{1, sent[0]}}, {}}}, nullptr};
  EXPECT_NE(told([&] { world->exchange(absent).wait(); }).find("rank 1, which does not take part"),
            std::string::npos);
}

// Catches: a parcel that nobody sends, looked for beyond what has come.
TEST(WorldTest, WhoSendsNothingIsTold) {
  const auto world = local_world(3);
  const Comm comm{DeviceMesh({3}), world};
  const Groups& g = comm.along[0];
  const Exchange lost{
      "exchange",
      {{&g[0], {{2, at::zeros({3})}}, {}}, {&g[1], {}, {}}, {&g[2], {}, {{1, at::zeros({3})}}}},
      nullptr};
  EXPECT_NE(told([&] { world->exchange(lost).wait(); }), "");
}

// Catches: a write past libtorch, of which autograd does not know.
TEST(CopyBits, IsAWrite) {
  const auto into = at::zeros({3});
  const auto before = into._version();
  copy_bits(into, at::ones({3}));
  EXPECT_GT(into._version(), before);
}

}  // namespace
}  // namespace lockstep
