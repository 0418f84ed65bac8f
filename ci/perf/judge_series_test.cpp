// SPDX-License-Identifier: Apache-2.0
// From samples in a store to judgements: pairs by round, directions, histories by machine, what is missing.
#include "ci/perf/judge_series.h"

#include <cmath>
#include <random>

#include "ci/perf/arms.h"
#include "dashboard/store/testing.h"

namespace lockstep::perf {
namespace {

using dashboard::Measurement;
using dashboard::Recorder;
using dashboard::Run;
using dashboard::Store;
using dashboard::testing::sample_run;
using dashboard::testing::TemporaryFolder;

Run run_of(const std::string& id, const std::string& build, int64_t minute) {
  Run run = sample_run(id);
  run.build_hash = build;
  run.started_ms += 60'000 * minute;
  return run;
}

void sample(Recorder& r, const std::string& series, std::string_view arm, double value) {
  r.record(Measurement{series, "us", value, std::string(arm)});
}

// Rounds of a series in turns: 1 % of noise, the candidate's values `ratio` times the baseline's.
void record_turns(Recorder& r, const dashboard::Series& series, double ratio, int rounds, bool confirm) {
  r.record(series);
  std::mt19937_64 random(std::hash<std::string>{}(series.name));
  std::normal_distribution<double> noise(0, 0.01);
  for (int i = 0; i < rounds; ++i) {
    const double machine = 100 * (1 + 0.1 * (i % 3));  // common to a round: it must cancel
    sample(r, series.name, kCandidate, machine * ratio * std::exp(noise(random)));
    sample(r, series.name, kAgain, machine * ratio * std::exp(noise(random)));
    sample(r, series.name, kBaseline, machine * std::exp(noise(random)));
    if (!confirm) continue;
    sample(r, series.name, kConfirmCandidate, machine * ratio * std::exp(noise(random)));
    sample(r, series.name, kConfirmBaseline, machine * std::exp(noise(random)));
  }
}

dashboard::Series timed(const std::string& name, bool more = false) {
  return {name, "dispatch", false, more, "us"};
}
dashboard::Series counted(const std::string& name) {
  return {name, "dispatch", true, false, "calls"};
}

const SeriesJudgement& of(const std::vector<SeriesJudgement>& all, const std::string& series) {
  for (const auto& j : all)
    if (j.series == series) return j;
  ADD_FAILURE() << "no judgement of " << series;
  static const SeriesJudgement none;
  return none;
}

// Catches: a direction turned, a floor ignored, an alarm without confirmation, pairs across rounds (whose
// common part would then look like 10 % of noise).
TEST(JudgeSeries, InTurns) {
  const TemporaryFolder f;
  Store store = Store::open_writer(f / "c.db");
  {
    Recorder r(store, run_of("run", "new", 1), "w");
    record_turns(r, timed("slow"), 1.15, 20, true);
    record_turns(r, timed("rate", true), 1.15, 20, true);
    record_turns(r, timed("still"), 1.0, 20, false);
    record_turns(r, timed("creep"), 1.01, 20, true);
    record_turns(r, timed("once"), 1.15, 20, false);
    record_turns(r, timed("short"), 1.15, 6, true);
    r.finish("finished", 0);
  }
  const auto all = judge_series(store, nullptr, {});
  ASSERT_EQ(all.size(), 6u);
  const auto& slow = of(all, "slow");
  EXPECT_EQ(slow.verdict, "slower") << slow.detail;
  EXPECT_EQ(slow.against, "turns");
  EXPECT_EQ(slow.samples, 40);
  EXPECT_TRUE(slow.confirmed);
  EXPECT_NEAR(*slow.ratio, 1.15, 0.02);
  EXPECT_LT(*slow.low, 1.15);
  EXPECT_GT(*slow.high, 1.15);
  EXPECT_LE(*slow.p, 0.01);
  EXPECT_LT(*slow.detectable, 0.05);
  EXPECT_LE(*slow.false_alarms, 0.01);
  EXPECT_EQ(of(all, "rate").verdict, "faster");
  EXPECT_EQ(of(all, "still").verdict, "same");
  EXPECT_EQ(of(all, "still").reason, "");
  EXPECT_EQ(of(all, "creep").verdict, "same");  // sure, and below the floor
  EXPECT_EQ(of(all, "once").verdict, "not measured");
  EXPECT_EQ(of(all, "once").reason, "unconfirmed");
  EXPECT_EQ(of(all, "short").verdict, "not measured");
  EXPECT_EQ(of(all, "short").reason, "few");
  EXPECT_FALSE(of(all, "short").detectable);
  EXPECT_EQ(series_to_confirm(store, nullptr, {}), (std::vector<std::string>{"once", "rate", "slow"}));
  for (const auto& j : all) EXPECT_NE(j.detail, "");
}

// Catches: a sample of zero taken for a ratio of infinity, and one such sample that silences the whole
// series.
TEST(JudgeSeries, ValuesThatHaveNoLogarithmAreOutliersOrRefused) {
  const TemporaryFolder f;
  Store store = Store::open_writer(f / "c.db");
  {
    Recorder r(store, run_of("run", "new", 1), "w");
    for (const std::string name : {"one", "many", "nan"}) {
      record_turns(r, timed(name), 1, 20, false);
      for (int i = 0; i < (name == "many" ? 12 : 1); ++i) {
        sample(r, name, kCandidate, name == "nan" ? std::nan("") : -0.5);
        sample(r, name, kAgain, 100);
        sample(r, name, kBaseline, 100);
      }
    }
    r.finish("finished", 0);
  }
  const auto all = judge_series(store, nullptr, {});
  EXPECT_EQ(of(all, "one").verdict, "same") << of(all, "one").detail;
  EXPECT_EQ(of(all, "one").samples, 21);
  EXPECT_EQ(of(all, "many").reason, "value");
  EXPECT_EQ(of(all, "nan").reason, "value");
  EXPECT_EQ(of(all, "nan").verdict, "not measured");
}

void record_history(Store& store, int points, double machine_noise) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, machine_noise);
  for (int i = 0; i < points; ++i) {
    const auto n = std::to_string(i);
    Recorder r(store, run_of("run " + n, "build " + n, i), "w");
    sample(r, "step", kPlain, 100 * std::exp(noise(random)));
    if (i == points - 1) sample(r, "gone", kPlain, 1);
    r.finish("finished", 0);
    Run other = run_of("other " + n, "build " + n, i);
    other.cores = 64;  // twice as fast, and none of our business
    Recorder o(store, other, "w");
    sample(o, "step", kPlain, 50);
    o.finish("finished", 0);
  }
}

// The judgement of "step" for a candidate of this value, with a second batch of that one, if it is positive.
SeriesJudgement against_history(int points, double machine_noise, double value, double second) {
  const TemporaryFolder f;
  Store main = Store::open_writer(f / "main.db");
  record_history(main, points, machine_noise);
  Store store = Store::open_writer(f / "c.db");
  Recorder r(store, run_of("candidate", "new", 1000), "w");
  sample(r, "step", kPlain, value);
  if (second > 0) sample(r, "step", kConfirmCandidate, second);
  r.finish("finished", 0);
  const auto all = judge_series(store, &main, {});
  EXPECT_EQ(all.size(), 2u);
  EXPECT_EQ(of(all, "gone").reason, "missing");
  const bool wants = std::abs(std::log(value / 100)) > 0.1;
  EXPECT_EQ(series_to_confirm(store, &main, {}).size(), wants && points >= 10 ? 1u : 0u);
  return of(all, "step");
}

// Catches: points of another machine in the band, verdicts from a short history, alarms that a second batch
// does not repeat.
TEST(JudgeSeries, AgainstHistory) {
  const SeriesJudgement slower = against_history(20, 0.005, 115, 116);
  EXPECT_EQ(slower.verdict, "slower") << slower.detail;
  EXPECT_EQ(slower.against, "history");
  EXPECT_EQ(slower.samples, 20);
  EXPECT_NEAR(*slower.ratio, 1.15, 0.01);
  EXPECT_EQ(against_history(20, 0.005, 101, 0).verdict, "same");
  EXPECT_EQ(against_history(20, 0.005, 115, 0).reason, "unconfirmed");
  EXPECT_EQ(against_history(20, 0.005, 115, 100).verdict, "same");
  EXPECT_EQ(against_history(20, 0.005, 85, 86).verdict, "faster");
  EXPECT_EQ(against_history(20, 0.05, 101, 0).reason, "noise");
  EXPECT_EQ(against_history(9, 0.005, 115, 116).reason, "few");
  EXPECT_EQ(against_history(9, 0.005, 115, 116).verdict, "not measured");
}

SeriesJudgement exactly(const std::vector<double>& candidate, const std::vector<double>& baseline) {
  const TemporaryFolder f;
  Store main = Store::open_writer(f / "main.db");
  Store store = Store::open_writer(f / "c.db");
  {
    Recorder r(main, run_of("main", "old", 0), "w");
    r.record(counted("calls"));
    for (const double x : baseline) sample(r, "calls", kPlain, x);
    sample(r, "other", kPlain, 1);
    r.finish("finished", 0);
    Recorder c(store, run_of("candidate", "new", 1), "w");
    c.record(counted("calls"));
    for (const double x : candidate) sample(c, "calls", kPlain, x);
    c.finish("finished", 0);
  }
  return of(judge_series(store, &main, {}), "calls");
}

// Catches: a count compared with a tolerance, an average of counts that differ.
TEST(JudgeSeries, CountedWorkIsExact) {
  EXPECT_EQ(exactly({12, 12}, {12}).verdict, "same");
  EXPECT_EQ(exactly({12, 12}, {12}).against, "exact");
  const auto more = exactly({1e9 + 1}, {1e9});
  EXPECT_EQ(more.verdict, "changed");
  EXPECT_NE(more.detail.find("worse"), std::string::npos) << more.detail;
  EXPECT_NE(exactly({11}, {12}).detail.find("better"), std::string::npos);
  EXPECT_EQ(exactly({12, 13}, {12}).reason, "nondeterministic");
  EXPECT_EQ(exactly({12}, {12, 13}).reason, "nondeterministic");
  EXPECT_EQ(exactly({12}, {}).reason, "new");
}

// Catches: instructions of two processors compared, or other counts not compared because of the processor.
TEST(JudgeSeries, InstructionsAreOfOneProcessor) {
  const auto judged = [](const std::string& unit, const std::string& cpu) {
    const TemporaryFolder f;
    Store main = Store::open_writer(f / "main.db");
    Store store = Store::open_writer(f / "c.db");
    const auto record = [&](Store& to, const dashboard::Run& run, double value) {
      Recorder r(to, run, "w");
      r.record(dashboard::Series{"work", "dispatch", true, false, unit});
      r.record(Measurement{"work", unit, value, std::string(kPlain)});
      r.finish("finished", 0);
    };
    auto run = run_of("candidate", "new", 1);
    run.cpu = cpu;
    record(main, run_of("main", "old", 0), 100);
    record(store, run, 90);
    return of(judge_series(store, &main, {}), "work");
  };
  const auto same_cpu = run_of("", "", 0).cpu;
  EXPECT_EQ(judged("instructions", same_cpu).verdict, "changed");
  const auto other = judged("instructions", "another one");
  EXPECT_EQ(other.verdict, "not measured");
  EXPECT_EQ(other.reason, "new");
  EXPECT_NE(other.detail.find("another one"), std::string::npos) << other.detail;
  EXPECT_EQ(judged("calls", "another one").verdict, "changed");
}

// Catches: the candidate's own run in a copy of the store taken for its history, and an older build's samples
// for the candidate's.
TEST(JudgeSeries, KnowsItsOwnRun) {
  const TemporaryFolder f;
  Store store = Store::open_writer(f / "both.db");
  {
    Recorder a(store, run_of("old", "old", 0), "w");
    a.record(counted("calls"));
    sample(a, "calls", kPlain, 12);
    sample(a, "only old", kPlain, 1);
    a.finish("finished", 0);
    Recorder b(store, run_of("new", "new", 1), "w");
    b.record(counted("calls"));
    sample(b, "calls", kPlain, 13);
    b.finish("finished", 0);
  }
  const auto all = judge_series(store, &store, {});
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(of(all, "calls").verdict, "changed");
  EXPECT_EQ(*of(all, "calls").baseline_value, 12);
  EXPECT_EQ(of(all, "only old").reason, "missing");
}

}  // namespace
}  // namespace lockstep::perf
