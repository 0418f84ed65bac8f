// SPDX-License-Identifier: Apache-2.0
// The law of the suite `overlap`, in the Worlds of this process; ranks in processes run it in ci/program.
#include <gtest/gtest.h>

#include "generators/cases/programs.h"
#include "suites/core/overlap.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/thread_engine.h"
#include "suites/laws/laws.h"

namespace lockstep::suites {
namespace {

constexpr uint64_t kSeed = 5;
constexpr uint64_t kCases = 60;

// Catches: cases in which nothing overlaps, nothing is left alone, or an op writes to what is in flight.
TEST(Overlap, CasesHaveWhatTheLawIsAbout) {
  uint64_t several = 0, left_alone = 0, between = 0;
  for (uint64_t i = 0; i < kCases; ++i) {
    const auto c = generators::generate("overlap", kSeed, i);
    const auto begun = begun_by(c.program);
    several += begun.size() >= 2;
    left_alone += std::any_of(begun.begin(), begun.end(), [](const Begun& one) { return !one.mentioned; });
    between += c.program.calls.size() > begun.size();
    for (const auto& call : c.program.calls) EXPECT_FALSE(oracle::is_in_place(call.op)) << call.op;
  }
  EXPECT_GE(several, kCases * 3 / 4);
  EXPECT_GE(left_alone, kCases / 2);
  EXPECT_GE(between, kCases / 2);
}

// Catches: a World in which a redistribution that is begun gives other bits, moves other bytes, or leaks
// unseen.
TEST(Overlap, TheLawHoldsWithAllRanksInOneThreadAndOneRankAThread) {
  const auto& suite = find_suite("overlap");
  LockstepEngine local;
  ThreadEngine threads(std::chrono::minutes(1));
  for (uint64_t i = 0; i < kCases; ++i) {
    const auto c = generators::generate("overlap", kSeed, i);
    for (EngineUnderTest* engine :
         {static_cast<EngineUnderTest*>(&local), static_cast<EngineUnderTest*>(&threads)}) {
      const auto outcome = judge_safely(suite, c, *engine);
      if (std::holds_alternative<Passed>(outcome)) continue;
      ADD_FAILURE() << oracle::to_token(c) << "\n"
                    << (engine == &local ? "local" : "threads") << "\n"
                    << explanation_of(outcome);
    }
  }
}

}  // namespace
}  // namespace lockstep::suites
