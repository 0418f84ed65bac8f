// SPDX-License-Identifier: Apache-2.0
// Redistributions by way of another mesh: what is recorded of them.
#include <gtest/gtest.h>

#include "engine/world/flight.h"
#include "oracle/program/program.h"
#include "suites/engines/lockstep_engine.h"

namespace lockstep::suites {
namespace {

// Two redistributions, each there and back, and looked at between them.
oracle::Case by_way() {
  return oracle::parse_token(
      "v2:redistribute;mesh=dp:3,tp:2;seed=39889;dev=132x2048;lane=integer;options=across:19944;"
      "x0=f64[6x5x5]:integers(39194,-3,3)@[R,R];v0=lockstep::redistribute(x0,@[R,S2]);"
      "v1=lockstep::redistribute(v0,@[R,R]);v2=lockstep::redistribute(x0,@[R,S2])#0a6826d2");
}

// Who looks for what ranks left out goes by the places of ops. Catches: a place that is given twice, or again
// after later ones.
TEST(ByWay, ExchangesAreAskedByOpsInTheirOrder) {
  const auto memory = std::make_shared<FlightMemory>(6);
  LockstepEngine engine([&](WorldPtr world) { return recorded(std::move(world), memory); });
  const auto result = engine.run(by_way(), true);
  for (int64_t rank = 0; rank < 6; ++rank) {
    const auto& ring = memory->of(rank);
    ASSERT_LT(ring.count, FlightRing::kLength);
    ASSERT_GT(ring.count, 5);
    for (int64_t i = 1; i < ring.count; ++i)
      EXPECT_GE(ring.records[i].entry, ring.records[i - 1].entry)
          << "rank " << rank << ", exchange " << i + 1;
    EXPECT_GT(ring.records[ring.count - 1].entry, std::ssize(result.timeline)) << "of what is not told, too";
  }
  std::vector<std::string> ops;
  for (const auto& entry : result.timeline) ops.push_back(entry.op);
  EXPECT_EQ(ops, std::vector<std::string>(3, "lockstep::redistribute"));
}

}  // namespace
}  // namespace lockstep::suites
