// SPDX-License-Identifier: Apache-2.0
// What a swap does to its own process, and what is told of it.
#include "suites/faults/chaos.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/world/collectives.h"
#include "engine/world/comm.h"
#include "engine/world/thread_world.h"

namespace lockstep::suites {
namespace {

Work gather(World& world, const Groups& groups) {
  return all_gather(world, groups, PerRank<at::Tensor>{at::zeros({2})}, [](size_t, const at::Tensor&) {});
}

Work broadcast_from_first(World& world, const Groups& groups) {
  return broadcast(world, groups, 0, PerRank<at::Tensor>{at::zeros({2})},
                   PerRank<at::Tensor>{at::zeros({2})});
}

// What is told of chaos where each rank of 2 x 2 runs `body`, and an exchange fails.
std::string told(const std::string& chaos, const std::function<void(World&, const Comm&)>& body) {
  setenv("TMPDIR", testing::TempDir().c_str(), 1);  // where it is told, too
  testing::internal::CaptureStderr();
  std::string failed;
  try {
    run_on_threads(4, std::chrono::seconds(20), [&](const WorldPtr& world) {
      const auto struck = Chaotic(parse_chaos(chaos)).around(world, "a case");
      body(*struck, Comm(DeviceMesh({2, 2}), struck));
    });
  } catch (const std::exception& e) {
    failed = e.what();
  }
  EXPECT_NE(failed, "");
  return testing::internal::GetCapturedStderr();
}

// Law: a swap that nobody but a barrier can follow fails, and the process lives on. Catches: an exchange that
// is begun behind the barrier, kept until the World is gone, and ends the process as one never waited for.
TEST(Chaos, ASwapWithABarrierLeavesTheProcessAlone) {
  const auto text = told("swap,rank=1,exchange=1,when=begin",
                         [](World& world, const Comm& comm) { gather(world, comm.along[0]).wait(); });
  EXPECT_TRUE(text.starts_with("chaos: swap strikes rank 1 at its exchange 1, all_gather, asked by "))
      << text;
}

// Law: it strikes where another exchange comes in the place of the one held back, as flights number them.
// Catches: a number that forgets what went to other groups before.
TEST(Chaos, ASwapCountsWhatOtherGroupsGotBefore) {
  const auto text = told("swap,rank=1,exchange=1,when=begin", [](World& world, const Comm& comm) {
    auto held = gather(world, comm.along[0]), other = gather(world, comm.along[1]);
    auto next = broadcast_from_first(world, comm.along[0]);
    held.wait();
    other.wait();
    next.wait();
  });
  EXPECT_TRUE(text.starts_with("chaos: swap strikes rank 1 at its exchange 2, all_gather, asked by "))
      << text;
  EXPECT_NE(text.find("; exchange 1 of ranks 1,3; "), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::suites
