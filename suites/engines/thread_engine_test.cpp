// SPDX-License-Identifier: Apache-2.0
// One rank a thread gives what all ranks in one thread give: values, random state, bytes, and a timeline of
// which the judge says the same.
#include "suites/engines/thread_engine.h"

#include <gtest/gtest.h>

#include "engine/values/error.h"
#include "engine/values/merge.h"
#include "generators/cases/metamorphic.h"
#include "generators/cases/programs.h"
#include "suites/core/judge.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/make_engine.h"

namespace lockstep::suites {
namespace {

constexpr Patience kLong = std::chrono::minutes(1);
constexpr uint64_t kCases =
    60;  // of each suite; `lockstep run --world thread` runs more (ci/program/world_test)

// What a run gave, or why it did not.
struct Ran {
  EngineResult result;
  Traffic traffic;
  std::string refused;
};
template <class Run>
Ran ran(Run&& run) {
  Ran got;
  try {
    got.result = run(got.traffic);
  } catch (const Error& e) {
    got.refused = e.what();
  }
  return got;
}

// Digests are the judge's to compare: some are of memory that nobody has written yet.
void expect_same(const Timeline& a, const Timeline& b, const DeviceMesh& mesh, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].op, b[i].op) << what;
    EXPECT_EQ(a[i].order, b[i].order) << what;
    ASSERT_EQ(a[i].outputs.size(), b[i].outputs.size()) << what;
    for (const auto& output : b[i].outputs)
      EXPECT_TRUE(output.digests.empty() || output.digests.size() == static_cast<size_t>(mesh.size()))
          << what;
  }
}

// What the judge says of a run, in words.
std::string judged(const oracle::Case& c, EngineUnderTest&& engine) {
  const auto outcome = judge_against_oracle(c, engine, Allowed::kExplained);
  return concat(dashboard::name(verdict_of(outcome)), " ", explanation_of(outcome));
}

void expect_same(const char* suite) {
  int64_t compared = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const auto c = generators::generate(suite, 13, i);
    const auto a = ran([&](Traffic& traffic) {
      return run_in(local_world(c.mesh.size()), c, oracle::make_inputs(c), true, traffic);
    });
    const auto b = ran([&](Traffic& traffic) { return run_on_threads(c, true, traffic, kLong); });
    const auto what = oracle::to_token(c);
    ASSERT_EQ(a.refused, b.refused) << what;
    if (!a.refused.empty()) continue;
    ++compared;
    ASSERT_EQ(first_disagreement(a.result, b.result), "") << what;
    expect_same(a.result.timeline, b.result.timeline, c.mesh, what);
    EXPECT_EQ(a.result.random_after, b.result.random_after) << what;
    EXPECT_EQ(a.traffic.sent, b.traffic.sent) << what;
    EXPECT_EQ(a.result.bytes_moved, b.result.bytes_moved) << what;
    EXPECT_EQ(judged(c, LockstepEngine()), judged(c, ThreadEngine(kLong))) << what;
  }
  EXPECT_GT(compared, static_cast<int64_t>(kCases / 2)) << suite;
}

// Catches: whatever above World assumes that all ranks are hosted here; digests or bytes that are merged in
// another order than that of the ranks.
TEST(ThreadEngine, Redistribute) {
  expect_same("redistribute");
}
TEST(ThreadEngine, Ops) {
  expect_same("ops");
}
TEST(ThreadEngine, Gradient) {
  expect_same("gradient");
}
TEST(ThreadEngine, Random) {
  expect_same("random");
}
TEST(ThreadEngine, Program) {
  expect_same("program");
}

// Catches: ranks that wait for each other as long as they like, whatever --hang says. (Of a single case all
// ranks may come just in time.)
TEST(ThreadEngine, WaitsAsLongAsItIsTold) {
  const auto engine = make_engine("lockstep", {.world = "thread", .seconds = 0});
  int64_t lost = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const auto c = generators::generate("redistribute", 13, i);
    const auto told = ran([&](Traffic&) { return engine->run(c, false); });
    lost += told.refused.find("did not come within 0 ms") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(lost, 0);
}

// Catches: a rank that is taken for its position, a World that waits for ranks that the mesh does not have.
TEST(ThreadEngine, SomeRanksOfALargerWorld) {
  int64_t compared = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const auto c = generators::generate("edges", 19, i);
    const auto some = generators::ranks_of_larger_world(c, generators::Random(i));
    const auto what = oracle::to_token(some);
    const auto a = ran([&](Traffic&) { return LockstepEngine().run(c, false); });
    const auto b = ran([&](Traffic&) { return LockstepEngine().run(some, false); });
    const auto threads = ran([&](Traffic& traffic) { return run_on_threads(some, false, traffic, kLong); });
    ASSERT_EQ(a.refused.empty(), b.refused.empty()) << what << b.refused;
    ASSERT_EQ(a.refused.empty(), threads.refused.empty()) << what << threads.refused;
    if (!a.refused.empty()) continue;
    ++compared;
    EXPECT_EQ(first_disagreement(a.result, b.result), "") << what;
    EXPECT_EQ(first_disagreement(a.result, threads.result), "") << what;
  }
  EXPECT_GT(compared, static_cast<int64_t>(kCases / 2));
}

TimelineEntry entry_of(const SpecPtr& spec, std::string op, uint64_t digest) {
  TimelineEntry entry;
  entry.op = std::move(op);
  entry.outputs = {{spec, {{digest, digest}}, {}}};
  return entry;
}

// Catches: ranks that ran different programs and are judged as if one of them stood for all.
TEST(Merge, RanksThatPartAreNamed) {
  const auto spec = std::make_shared<const Spec>(DeviceMesh({2}), Placements{Shard{0}},
                                                 std::vector<int64_t>{4}, at::kFloat);
  const HostedTimeline one{{1}, {entry_of(spec, "aten::mm", 7)}}, zero{{0}, {entry_of(spec, "aten::mm", 5)}};
  const auto both = lockstep::merge({one, zero});
  EXPECT_EQ(both.at(0).outputs.at(0).digests, (std::vector<Digest>{{5, 5}, {7, 7}}));
  const auto refused = [&](const HostedTimeline& other) {
    try {
      lockstep::merge({zero, other});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({{1}, {entry_of(spec, "aten::add", 7)}}).find("runs aten::mm, the other aten::add"),
            std::string::npos);
  EXPECT_NE(refused({{1}, {}}).find("position 1 ran 0"), std::string::npos);
  auto other = one;
  other.timeline[0].random_offset = 4;
  EXPECT_NE(refused(other).find("offsets of the random stream"), std::string::npos);
}

// Of 7 elements on three ranks the last has one, whose two gradients lie in one memory where others' are
// copies: which ranks copy is no op. Catches: an op that some ranks run and others do not.
TEST(ThreadEngineTest, WhereALocalLiesIsNoOp) {
  const auto c = oracle::parse_token(
      "v2:edges;mesh=3;seed=0;dev=1x256;x0=f32[7]:normal(50585)@[R];x1=f32[7]:normal(93914)@[S0]!;x2=f32[7x2]"
      ":"
      "uniform(46923)@[R];v0=lockstep::local_map(\"aten::stack\",t[x0,x1],1,@[S0],@[S0],@[S0],@[S0],@[S0],[7,"
      "2]);v1="
      "lockstep::backward(t[v0],t[x2])#66a3d847");
  ThreadEngine threads(kLong);
  EXPECT_TRUE(std::holds_alternative<Passed>(judge_against_oracle(c, threads, Allowed::kExplained)));
}

}  // namespace
}  // namespace lockstep::suites
