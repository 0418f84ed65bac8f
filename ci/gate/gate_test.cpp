// SPDX-License-Identifier: Apache-2.0
// Two healthy stores that differ in nothing but the binary, and what each change of the candidate is called.
#include <gtest/gtest.h>

#include <span>

#include "ci/gate/judge.h"
#include "ci/gate/rules.h"
#include "ci/gate/testing_changes.h"

namespace lockstep::gate {
namespace {

using namespace testing;

// Catches: a gate that cries without reason.
TEST(Gate, TwoHealthyRunsGiveNoFinding) {
  const Judgement j = Story().judged();
  EXPECT_EQ(told(j), Lines{});
  EXPECT_TRUE(j.codes.empty());
  EXPECT_EQ(j.commit, "b");
}

// Coverage, faults.
const Change kLosses[] = {
    {"a suite is lost",
     [](Story& s) {
       std::erase_if(s.candidate.cases, [](const CaseRow& c) { return c.suite == "gradient"; });
     },
     {"lost_suite: suite gradient (block)", "lost_op: op aten::add (block)",
      "lost_label: label empty shard (block)"},
     {5}},
    {"few cases",
     [](Story& s) { s.candidate.cases.erase(s.candidate.cases.begin(), s.candidate.cases.begin() + 40); },
     {"fewer_cases: suite gradient (block)", "fewer_cases: suite ops (block)"},
     {5}},
    {"a pair is lost",
     [](Story& s) {
       for (CaseRow& c : s.candidate.cases)
         if (c.suite == "gradient") c.coverage[0].placement = "S0";
     },
     {"lost_pair: aten::add/R (block)"},
     {5}},
    {"a demand is struck off, another lowered",
     [](Story& s) {
       s.base.run.plan = R"({"list":{"aten::mm":9,"aten::add":4,"uneven":100}})";
       s.candidate.run.plan = R"({"list":{"aten::add":4,"uneven":50}})";
     },
     {"lost_demand: coverage of aten::mm (block)", "lost_demand: coverage of uneven (block)"},
     {5}},
    {"a demand more, and a baseline without a list",
     [](Story& s) { s.candidate.run.plan = R"({"list":{"aten::add":4}})"; },
     {},
     {}},
    {"a fault survives",
     [](Story& s) { s.candidate.faults[0].found = false; },
     {"fault_survived: lost_partial (block)"},
     {8}},
    {"a fault is no longer planted",
     [](Story& s) { s.candidate.faults.pop_back(); },
     {"lost_fault: fault stale_offset (block)"},
     {5}},
    {"the canary lives",
     [](Story& s) {
       s.candidate.cases.back().verdict = Verdict::kDifferent;
       s.candidate.cases.back().bucket = "canary";
     },
     {"fault_survived: suite canary (block)"},
     {8}},
};

// What was not measured, or is not what it claims to be.
const Change kMeasured[] = {
    {"the run was interrupted",
     [](Story& s) { s.candidate.state = "interrupted"; },
     {"not_measured: run run-of-b (block)"},
     {5}},
    {"the plan is not met",
     [](Story& s) { s.candidate.run.plan = R"({"suites":[{"name":"ops","least":1000}]})"; },
     {"not_measured: suite ops (block)"},
     {5}},
    {"a gate of the run failed",
     [](Story& s) {
       s.candidate.gates = {{"coverage", "all", "half", false}};
     },
     {"not_measured: run run-of-b: coverage (block)"},
     {5}},
    {"a shard is missing",
     [](Story& s) {
       s.candidate.run.plan = R"({"suites":[],"labels":[],"request":{"shard":0,"shards":3,"cases":60}})";
     },
     {"missing_shard: shard 2/3 of seed 7 (block)", "missing_shard: shard 3/3 of seed 7 (block)"},
     {5}},
    {"another commit than claimed",
     [](Story& s) { s.claims.commit = "c"; },
     {"wrong_commit: commit (block)"},
     {5}},
    {"the claimed commit",
     [](Story& s) {
       s.claims = {"b", "build-b"};
     },
     {},
     {}},
    {"another binary than claimed",
     [](Story& s) { s.claims.build = "other"; },
     {"wrong_binary: binary (block)"},
     {5}},
    {"runs of two engines",
     [](Story& s) { s.other_engine = "other"; },
     {"wrong_engine: engine (block)", "environment: engine (note)"},
     {5}},
    {"another engine than the baseline's",
     [](Story& s) { s.candidate.run.engine = "other"; },
     {"not_measured: baseline (block)"},
     {5}},
    {"uncommitted source",
     [](Story& s) { s.candidate.run.commit = "b+dirty"; },
     {"dirty_commit: run run-of-b (warn)"},
     {}},
    {"the policy demands more",
     [](Story& s) {
       s.policy.demands = {{"label", "huge", 3}, {"op", "aten::mm", 1}, {"suite", "ops", 10}};
     },
     {"demanded: label huge (block)"},
     {5}},
};

// Mutes.
const Change kMutes[] = {
    {"a muted failure",
     [](Story& s) {
       s.candidate.cases[0] = failing(0);
       mute(s, "2026-06-15");
     },
     {"new_difference: " + kBucket + " (note)"},
     {}},
    {"a mute that ended yesterday",
     [](Story& s) {
       s.candidate.cases[0] = failing(0);
       mute(s, "2026-06-14");
     },
     {"expired_mute: " + kBucket + " (block)", "new_difference: " + kBucket + " (block)"},
     {1, 5}},
    {"a muted failure passes",
     [](Story& s) {
       s.base.cases[0] = failing(0);
       s.candidate.replayed = {{"v1:case-0", kBucket, Verdict::kEqual, ""}};
       mute(s, "2026-12-31");
     },
     {"unexpected_pass: " + kBucket + " (block)"},
     {5}},
    {"a muted failure that nobody replayed",
     [](Story& s) {
       s.base.cases[0] = failing(0);
       mute(s, "2026-12-31");
     },
     {"unproven_mute: " + kBucket + " (warn)"},
     {}},
    {"a mute of nothing",
     [](Story& s) { mute(s, "2026-12-31"); },
     {"unknown_mute: " + kBucket + " (warn)"},
     {}},
};

// Measured series.
const Change kSeries[] = {
    {"a timed series is slower",
     [](Story& s) { judge_timed(s, "slower", s.candidate.run); },
     {"slower: step (block)"},
     {4}},
    {"a timed series is faster",
     [](Story& s) { judge_timed(s, "faster", s.candidate.run); },
     {"faster: step (note)"},
     {}},
    {"a timed series is the same", [](Story& s) { judge_timed(s, "same", s.candidate.run); }, {}, {}},
    {"a timed series is new",
     [](Story& s) { judge_timed(s, "not measured", s.candidate.run, "new"); },
     {},
     {}},
    {"a timed series cannot tell",
     [](Story& s) { judge_timed(s, "not measured", s.candidate.run, "noise"); },
     {"series_not_measured: step (block)"},
     {5}},
    {"nobody judged a timed series",
     [](Story& s) {
       s.candidate.series.push_back({"step", "training", false, false, "us"});
     },
     {"series_not_measured: step (block)"},
     {5}},
    {"another run's timed series was judged",
     [](Story& s) { judge_timed(s, "same", s.base.run); },
     {"series_not_measured: step (block)"},
     {5}},
    {"more is counted", [](Story& s) { s.candidate.counted = 8; }, {"counted_more: dispatch (block)"}, {4}},
    {"less is counted", [](Story& s) { s.candidate.counted = 6; }, {"counted_less: dispatch (block)"}, {5}},
    {"less is counted than by the baseline's binary, in turns",
     [](Story& s) {
       s.candidate.samples = {{"dispatch", "calls", 9, "baseline"}};
     },
     {"counted_less: dispatch (block)"},
     {5}},
    {"one binary counts two numbers",
     [](Story& s) {
       s.candidate.samples = {{"dispatch", "calls", 8, "again"}};
     },
     {"nondeterminism: dispatch (block)"},
     {6}},
    {"instructions of another processor",
     [](Story& s) {
       s.candidate.series[0].unit = s.base.series[0].unit = "instructions";
       s.candidate.counted = 8;
       s.candidate.run.cpu = "Other CPU";
     },
     {"environment: processor (note)"},
     {}},
};

// Curves, and what the policy makes of a finding.
const Change kOthers[] = {
    {"a curve leaves its reference",
     [](Story& s) {
       s.candidate.curves.pop_back();
       s.candidate.curves.push_back({"tp:2", "llama", "init", "tp:2", "single", "exact", "f32", false});
       s.candidate.loss = 0x40000002;
     },
     {"curve_changed: one device (init) (block)", "curve_changed: tp:2 (init) (block)"},
     {1}},
    {"a curve is lost",
     [](Story& s) { s.candidate.curves.pop_back(); },
     {"lost_curve: curve tp:2 (init) (block)"},
     {5}},
    {"a series is lost",
     [](Story& s) {
       s.candidate.series = {{"redistribute", "redistribute", true, false, "calls"}};
     },
     {"lost_series: series dispatch (block)"},
     {5}},
    {"another machine",
     [](Story& s) { s.candidate.run.cpu = "Other CPU"; },
     {"environment: processor (note)"},
     {}},
    {"the policy only warns",
     [](Story& s) {
       s.candidate.cases[0] = failing(0);
       s.policy.effects["new_difference"] = Effect::kWarn;
     },
     {"new_difference: " + kBucket + " (warn)"},
     {}},
    {"the policy switches a rule off",
     [](Story& s) {
       s.candidate.cases[0] = failing(0);
       s.policy.effects["new_difference"] = Effect::kOff;
     },
     {},
     {}},
};

const std::vector<Change>& changes() {
  static const std::vector<Change> list = [] {
    std::vector<Change> all;
    for (const std::span<const Change> part :
         {std::span<const Change>(kFailures), std::span<const Change>(kVerdicts),
          std::span<const Change>(kRefusals), std::span<const Change>(kLosses),
          std::span<const Change>(kMeasured), std::span<const Change>(kMutes),
          std::span<const Change>(kSeries), std::span<const Change>(kOthers)})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return list;
}

// Each change is found under its name, and nothing else is. Catches: a rule that is blind, or one that also
// cries about what belongs to another.
TEST(Gate, EachChangeHasItsName) {
  for (const Change& change : changes()) {
    Story story;
    change.apply(story);
    const Judgement j = story.judged();
    EXPECT_EQ(told(j), change.expected) << change.what;
    EXPECT_EQ(j.codes, change.codes) << change.what;
  }
}

// Catches: a baseline for the gate that says less than the run that it was made of.
TEST(Gate, ABaselineForTheGateSaysTheSame) {
  for (const std::span<const Change> part :
       {std::span<const Change>(kVerdicts), std::span<const Change>(kRefusals),
        std::span<const Change>(kLosses)})
    for (const Change& change : part) {
      Story story;
      change.apply(story);
      story.for_gate = true;
      EXPECT_EQ(told(story.judged()), change.expected) << change.what;
    }
}

// Catches: a rule that no change above ever trips.
TEST(Gate, EveryRuleIsTripped) {
  std::set<std::string> tripped;
  for (const Change& change : changes())
    for (const std::string& line : change.expected) tripped.insert(line.substr(0, line.find(':')));
  for (const Rule& rule : rules()) {
    const std::set<std::string> elsewhere = {"regressed", "curve_divergence"};
    EXPECT_TRUE(tripped.contains(rule.name) || elsewhere.contains(rule.name)) << rule.name;
  }
}

// Catches: a regression that is told as if it were new. Main: fails at a, clean at c, e, g, fails at i.
TEST(Gate, WhatWasFixedAndFailsAgainIsRegressed) {
  const TemporaryFolder folder;
  Recorded first = healthy("a");
  first.cases[0] = failing(0);
  write(first, folder / "main.db");
  for (const char* commit : {"c", "e", "g"}) {
    Recorded clean = healthy(commit);
    clean.replayed = {{"v1:case-0", kBucket, Verdict::kEqual, ""}};
    write(clean, folder / "main.db");
  }
  Recorded again = healthy("i");
  again.cases[0] = failing(0);
  write(again, folder / "candidate.db");
  const Judgement j = judge(folder / "main.db", folder / "candidate.db", default_policy(), {}, kToday);
  EXPECT_EQ(told(j), Lines{"regressed: " + kBucket + " (block)"});
}

// Catches: a curve whose steps became unexplained, or parted earlier, and passes.
TEST(Gate, ACurveThatPartsEarlierIsADivergence) {
  const TemporaryFolder folder;
  for (const auto& [path, commit, from] :
       {std::tuple{"base.db", "a", 3}, std::tuple{"candidate.db", "b", 1}}) {
    Store store = Store::open_writer(folder / path);
    Recorder recorder(store, healthy(commit).run, "w");
    for (const CaseRow& row : healthy(commit).cases) recorder.record(row);
    for (const Curve& curve : healthy(commit).curves) {
      const int64_t id = recorder.open_curve(curve);
      for (int64_t step = 0; step < 4; ++step)
        recorder.record(id, {.step = step,
                             .loss_bits = 0x40000000u + (!curve.reference && step >= from ? 2 : 0),
                             .grad_norm_bits = 0x3f800000,
                             .chain = {1}});
    }
    recorder.finish("finished", 0);
  }
  const Judgement j = judge(folder / "base.db", folder / "candidate.db", default_policy(), {}, kToday);
  EXPECT_EQ(told(j), Lines{"curve_divergence: tp:2 (block)"});
  EXPECT_EQ(j.findings[0].expected, "3 identical steps, 0 unexplained");
  EXPECT_EQ(j.findings[0].got, "1 identical steps, 0 unexplained");
}

// Catches: verdicts that were judged by another policy, and a file of something else, taken for verdicts.
TEST(Gate, VerdictsOfAnotherPolicyAreRefused) {
  Story other;
  judge_timed(other, "same", other.candidate.run, "", 0.05);
  EXPECT_THROW(other.judged(), Error);
  for (const char* text : {"", "{}", "{\"schema\":\"lockstep-speed/2\"}", "[1]"}) {
    std::ofstream(other.claims.speed) << text;
    EXPECT_THROW(other.again(), Error) << text;
  }
  other.claims.speed += ".not";
  EXPECT_THROW(other.again(), Error);
}

// Catches: an empty candidate or baseline that is green.
TEST(Gate, NothingIsNotMeasured) {
  const TemporaryFolder folder;
  write(healthy("a"), folder / "full.db");
  { const Store empty = Store::open_writer(folder / "empty.db"); }
  const Judgement a = judge(folder / "full.db", folder / "empty.db", default_policy(), {}, kToday);
  EXPECT_TRUE(a.codes.contains(5));
  const Judgement b = judge(folder / "empty.db", folder / "full.db", default_policy(), {}, kToday);
  EXPECT_EQ(told(b), Lines{"not_measured: baseline (block)"});
}

}  // namespace
}  // namespace lockstep::gate
