// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/judge.h"

#include <gtest/gtest.h>

#include "ci/gate/testing.h"
#include "dashboard/store/merge.h"
#include "engine/values/error.h"

namespace lockstep::gate {
namespace {

using namespace testing;

// A blessing excuses the finding with the same rule, subject and value, in whichever file it is, and no
// other. Catches: a blessing that opens the gate for the next change too, and a judgement that does not store
// it.
TEST(Gate, ABlessingHoldsForOneValue) {
  Story story;
  story.candidate.cases[0] = sample_case(0, Verdict::kExplained);
  story.candidate.run.replay = " --world gloo --ranks 2";
  const Judgement red = story.judged();
  EXPECT_EQ(red.findings.at(0).replay, "lockstep replay 'v1:case-0' --world gloo --ranks 2");
  record(red, 1);
  const std::string candidate = story.folder / "candidate.db", base = story.folder / "base.db";
  EXPECT_THROW(bless(candidate, "new_difference", "", "why", "ann"), Error);
  EXPECT_THROW(bless(candidate, "worse_verdict", "another", "why", "ann"), Error);
  EXPECT_THROW(bless(candidate, "worse_verdict", "", "", "ann"), Error);
  bless(candidate, "worse_verdict", "", "the kernel changed", "ann");
  const Judgement green = story.again();
  EXPECT_EQ(told(green), Lines{"worse_verdict: ops | aten::mm | equal -> explained (note)"});
  EXPECT_NE(green.findings[0].detail.find("blessed by ann: the kernel changed"), std::string::npos);
  Store main_store = Store::open_writer(base);
  const std::string from[] = {candidate};
  merge(main_store, from);
  EXPECT_EQ(dashboard::testing::fs::exists(base), true);
  SQLite::Statement row(main_store.database(), "SELECT count(*) FROM v_blessings, v_judgements, v_findings");
  row.executeStep();
  EXPECT_EQ(row.getColumn(0).getInt(), 1);
}

// Catches: a name that is struck off what a run must cover, and a gate that opens again by itself.
TEST(Gate, OnlyABlessingLetsADemandGo) {
  Story story;
  story.base.run.plan = R"({"list":{"aten::mm":9}})";
  story.candidate.run.plan = R"({"list":{}})";
  record(story.judged(), 5);
  EXPECT_EQ(story.again().codes, std::set<int>{5});
  const std::string candidate = story.folder / "candidate.db";
  EXPECT_THROW(bless(candidate, "lost_demand", "", "", "ann"), Error);
  bless(candidate, "lost_demand", "coverage of aten::mm", "the op was removed", "ann");
  EXPECT_EQ(told(story.again()), Lines{"lost_demand: coverage of aten::mm (note)"});
  EXPECT_TRUE(story.again().codes.empty());
}

// Catches: a judgement that is stored in part, or twice by merging.
TEST(Gate, AJudgementIsStoredWhole) {
  Story story;
  story.candidate.cases[0] = failing(0);
  story.candidate.run.replay = " --world gloo --ranks 2";
  mute(story, "2026-12-31");
  Judgement j = story.judged();
  j.series = {{"dispatch", "timed", "turns", "slower", 12, 1.2, 1.1, 1.3, 0.001, 0.04, 0.0}};
  record(j, 0);
  const Store store = Store::open_reader(story.folder / "candidate.db");
  SQLite::Statement row(store.database(),
                        R"(SELECT j.findings, j.exit_code, j.codes, f.replay, s.ratio, b.state
      FROM v_judgements j JOIN v_findings f JOIN v_series_verdicts s JOIN v_buckets b)");
  ASSERT_TRUE(row.executeStep());
  EXPECT_EQ(row.getColumn(0).getInt(), 1);
  EXPECT_EQ(row.getColumn(2).getString(), "[0]");
  EXPECT_EQ(row.getColumn(3).getString(), "lockstep replay 'v1:case-0' --world gloo --ranks 2");
  EXPECT_EQ(row.getColumn(4).getDouble(), 1.2);
  EXPECT_EQ(row.getColumn(5).getString(), "muted");
}

}  // namespace
}  // namespace lockstep::gate
