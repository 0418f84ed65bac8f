// SPDX-License-Identifier: Apache-2.0
// That a rung does without what its name says, and with the rest.
#include "suites/bench/switches.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "suites/bench/dispatch_ops.h"
#include "suites/bench/measure.h"

namespace lockstep::suites {
namespace {

struct Found {
  double anew;
  int64_t remembered;
};

// Of three calls of an op, after a first one.
Found decided(const std::string& name, const Switches& switches) {
  const auto op = std::ranges::find(dispatch_ops(), name, &Op::name);
  const auto on = operands(*op, 1, 4);
  const Only only(switches);
  op->run(on.distributed);
  const auto& counters = current_context()->counters;
  const auto hits = counters.cache_hits;
  const double anew = decisions([&] {
    for (int call = 0; call < 3; ++call) op->run(on.distributed);
  });
  return {anew, counters.cache_hits - hits};
}

// Catches: a rung that times the cache under the name of the bypass, or of nothing.
TEST(Only, OpsGoTheWaysThatAreOn) {
  for (const auto* name : {"equal", "mm"}) {
    SCOPED_TRACE(name);
    const bool has_bypass = std::string(name) == "equal";
    const auto neither = decided(name, kNeither);
    EXPECT_EQ(neither.anew, 3);
    EXPECT_EQ(neither.remembered, 0);
    const auto bypass = decided(name, {"bypass", true, false});
    EXPECT_EQ(bypass.anew, has_bypass ? 0 : 3);
    EXPECT_EQ(bypass.remembered, 0);
    const auto cache = decided(name, {"cache", false, true});
    EXPECT_EQ(cache.anew, 0);
    EXPECT_EQ(cache.remembered, 3);
  }
}

// Catches: a switch that outlives its scope, and makes every series after it a slow one.
TEST(Only, IsOverAtItsEnd) {
  decided("mm", kNeither);
  const auto after = decided("mm", {"both", true, true});
  EXPECT_EQ(after.anew, 0);
  EXPECT_EQ(after.remembered, 3);
}

// Catches: an op of the table that no body could time, since it has wrong bits on one rank or on several.
TEST(DispatchOps, HaveThePlainOpsBits) {
  for (const auto& op : dispatch_ops())
    for (const int64_t ranks : {1, 2, 8}) EXPECT_NO_THROW(check(op, operands(op, ranks, 16))) << op.name;
}

}  // namespace
}  // namespace lockstep::suites
