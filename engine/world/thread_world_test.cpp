// SPDX-License-Identifier: Apache-2.0
// One rank a thread: conforms as LocalWorld does, and names the rank that does not come.
#include "engine/world/thread_world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <mutex>
#include <thread>

#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/testing_conformance.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong(20000);

// What each rank is told while it runs `body`; empty: nothing.
std::vector<std::string> told(int64_t n, const std::function<void(World&, const Groups&)>& body,
                              milliseconds patience = kLong) {
  std::vector<std::string> all(static_cast<size_t>(n));
  run_on_threads(n, patience, [&](const WorldPtr& world) {
    const Comm comm(DeviceMesh({n}), world);
    try {
      body(*world, comm.along[0]);
    } catch (const std::exception& e) {
      all[static_cast<size_t>(world->hosted()[0])] = e.what();
      throw;
    }
  });
  return all;
}

void gather(World& world, const Groups& groups, int64_t n = 2) {
  const auto none = [](size_t, const at::Tensor&) {};
  all_gather(world, groups, PerRank<at::Tensor>{at::zeros({n})}, none).wait();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

// Catches: an exchange that pairs by arrival, mixes groups up, or needs all ranks in one place.
TEST(ThreadWorld, Conforms) {
  for (const auto& shape : {std::vector<int64_t>{1}, {3}, {4}, {2, 3}, {2, 2, 2}}) {
    const DeviceMesh mesh(shape);
    run_on_threads(mesh.size(), kLong,
                   [&](const WorldPtr& world) { EXPECT_EQ(world_conformance(world, mesh), ""); });
  }
}

// Catches: a group that waits for ranks that are not in it.
TEST(ThreadWorld, SubMeshesMeetAlone) {
  const DeviceMesh mesh({2, 3}, {"dp", "tp"});
  run_on_threads(6, kLong, [&](const WorldPtr& world) {
    const bool meets = world->hosted()[0] >= 3;
    EXPECT_EQ(meets ? world_conformance(world, mesh.sub_mesh({"tp"}, 4)) : "", "");
  });
}

// Catches: a barrier that lets a rank through before all have come.
TEST(ThreadWorld, ABarrierWaitsForAll) {
  std::atomic<int> came = 0;
  told(4, [&](World& world, const Groups& groups) {
    std::this_thread::sleep_for(milliseconds(20 * world.hosted()[0]));
    ++came;
    barrier(world, groups);
    EXPECT_EQ(came, 4);
  });
}

// Catches: ranks that wait for ever for one that has died, or an error that hides why it did.
TEST(ThreadWorld, ARankThatDiesIsNamed) {
  std::vector<std::string> seen(3);
  try {
    told(3, [&](World& world, const Groups& groups) {
      const auto rank = static_cast<size_t>(world.hosted()[0]);
      gather(world, groups);
      if (rank == 2) throw std::runtime_error("out of luck");
      try {
        gather(world, groups);
      } catch (const RankLost& e) {
        seen[rank] = e.what();
      }
    });
    FAIL();
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "out of luck");
  }
  for (const int64_t rank : {0, 1})
    EXPECT_EQ(
        seen[static_cast<size_t>(rank)],
        concat("[all_gather] exchange 2 of ranks 0,1,2: rank ", rank,
               " waits for rank 2, which has ended: out of luck; the last that it came to is all_gather, "
               "exchange 1 of ranks 0,1,2"));
}

// Catches: a wait without a bound.
TEST(ThreadWorld, ARankThatStallsIsNamed) {
  try {
    told(
        2,
        [&](World& world, const Groups& groups) {
          if (world.hosted()[0] == 1) std::this_thread::sleep_for(milliseconds(600));
          gather(world, groups);
        },
        milliseconds(150));
    FAIL();
  } catch (const RankLost& e) {
    EXPECT_TRUE(has(e.what(), "rank 0 waits for rank 1, which did not come within 150 ms")) << e.what();
  }
}

// Catches: a collective that is skipped or swapped by one rank and answered with what another one sent.
TEST(ThreadWorld, RanksThatAskForDifferentThingsAreTold) {
  try {
    told(2, [&](World& world, const Groups& groups) {
      if (world.hosted()[0] == 1)
        barrier(world, groups);
      else
        gather(world, groups, 5);
    });
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(
        e.what(),
        "[all_gather] in exchange 1 of ranks 0,1 rank 0 asks for all_gather, sends rank 1 f32[5] and "
        "expects f32[5]; rank 1 asks for barrier, sends rank 0 nothing and expects nothing; all ranks "
        "of a group ask for the same, in the same order");
  }
  EXPECT_THROW(told(2,
                    [&](World& world, const Groups& groups) {
                      if (world.hosted()[0] == 0) gather(world, groups);
                      gather(world, groups);
                    }),
               RankLost);
}

// Rank 1 has ended while it waited for rank 2. Catches: a blame that goes on past who has ended.
TEST(ThreadWorld, WhoHasEndedIsNamedNotWhomItWaitedFor) {
  Board board(3, {0, 1, 2}, Patience(100));
  board.waits(1, 2);
  board.end(1, "out of luck");
  try {
    board.meet(Meeting{{0, 1}, 1}, "all_gather", 0);
    ADD_FAILURE() << "it met somebody";
  } catch (const RankLost& e) {
    EXPECT_TRUE(has(e.what(), "rank 0 waits for rank 1, which has ended")) << e.what();
  }
}

// Catches: a buffer that is sent and filled at once, taken for one that is only filled.
TEST(ThreadWorld, GathersInPlace) {
  checks_in_flight = true;
  run_on_threads(2, kLong, [](const WorldPtr& world) {
    const Comm comm(DeviceMesh({2}), world);
    const int64_t rank = world->hosted()[0];
    const at::Tensor all = at::zeros({2, 3}), mine = all[rank].fill_(rank + 1);
    all_gather(*world, comm.along[0], PerRank<at::Tensor>{mine}, PerRank<Buffers>{{all[0], all[1]}}).wait();
    EXPECT_TRUE(all[0].eq(1).all().item<bool>() && all[1].eq(2).all().item<bool>());
  });
  checks_in_flight = false;
}

}  // namespace
}  // namespace lockstep
