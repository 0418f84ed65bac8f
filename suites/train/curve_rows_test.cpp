// SPDX-License-Identifier: Apache-2.0
// What the store is told of a training run, and when.
#include "suites/train/curve_rows.h"

#include <gtest/gtest.h>

#include "dashboard/store/testing.h"
#include "suites/train/curves.h"
#include "suites/train/text.h"

namespace lockstep::suites {
namespace {

using dashboard::Store;
using dashboard::testing::sample_run;
using dashboard::testing::TemporaryFolder;

TrainOptions run_on(const char* mesh, RandomPolicy init, RandomPolicy drop) {
  TrainOptions options;
  if (mesh != nullptr) options.mesh = parse_mesh(mesh);
  options.init = init;
  options.drop = drop;
  return options;
}

// Catches: a run in the fast lane whose rows say exact, one device that is compared with itself, two policies
// of one name, indexed numbers beside the stock stream's reference.
TEST(CurveRows, SayHowARunWasMade) {
  using enum RandomPolicy;
  const auto one = curve_row(run_on(nullptr, kSingleDevice, kSingleDevice), "fast");
  EXPECT_EQ(one.name, "one device");
  EXPECT_EQ(one.lane, "fast");
  EXPECT_EQ(one.mesh, "");
  EXPECT_TRUE(one.reference);
  const auto tp = curve_row(run_on("tp:4", kSingleDevice, kOffsetBased), "exact");
  EXPECT_EQ(tp.name, "tp:4 offset-based dropout");
  EXPECT_EQ(tp.model, "llama tiny 8x128");
  EXPECT_EQ(tp.variant, "dropout");
  EXPECT_EQ(tp.policy, "offset-based");
  EXPECT_EQ(tp.lane, "exact");
  EXPECT_EQ(tp.dtype, "f32");
  EXPECT_FALSE(tp.reference);
  EXPECT_EQ(run_name(run_on("tp:4", kPerRankSeeds, kSingleDevice)), "tp:4 per-rank-seeds init");
  EXPECT_EQ(run_name(run_on("tp:4", kPerRankSeeds, kPerRankSeeds)), "tp:4 per-rank-seeds init+dropout");
  EXPECT_EQ(run_name(run_on("dp:2,tp:2", kSingleDevice, kSingleDevice)), "dp:2,tp:2 single-device");
  auto ablated = run_on("fsdp:4", kSingleDevice, kSingleDevice);
  ablated.without = Without::kPlanning;
  EXPECT_EQ(run_name(ablated), "fsdp:4 single-device, without planning");
  const auto indexed = curve_row(run_on(nullptr, kIndexed, kIndexed), "exact");
  EXPECT_EQ(indexed.name, "one device, indexed");
  EXPECT_EQ(indexed.model, "llama tiny 8x128, indexed numbers");
}

int64_t count(const std::string& path, const std::string& what) {
  const Store store = Store::open_reader(path);
  return store.database().execAndGet("SELECT " + what + " FROM v_curves").getInt64();
}

// Catches: steps that are written at the end of all runs, so that a kill loses them; verdicts, rates or
// memory that never arrive; steps that a verdict doubles.
TEST(CurveRows, StepsAreCommittedAsTheyArrive) {
  const TemporaryFolder folder;
  const auto path = folder / "curves.db";
  Store store = Store::open_writer(path);
  dashboard::Recorder recorder(store, sample_run(), "curves");
  CurvesOptions options{.train = {}, .meshes = {parse_mesh("tp:2")}, .baselines = false, .jobs = 2};
  options.train.steps = 3;
  options.train.batch = 2;
  options.train.sequence = 16;
  int64_t steps = 0, judged = 0;
  CurvesObserver observer;
  observer.on_step = [&](const TrainOptions& run, const TrainStep& step) {
    record_step(run, "exact", step, std::nullopt, recorder);
    EXPECT_EQ(count(path, "count(*)"), ++steps);
  };
  observer.on_judgement = [&](const TrainOptions& run, const TrainStep& step,
                              const StepJudgement& judgement) {
    record_step(run, "exact", step, judgement.verdict, recorder);
    EXPECT_EQ(count(path, "count(verdict)"), ++judged);
  };
  const auto report = curves(options, read_text("", 16), observer);
  EXPECT_EQ(steps, 6);
  EXPECT_EQ(judged, 3);
  EXPECT_EQ(count(path, "count(*)"), 6);
  EXPECT_EQ(count(path, "sum(tokens_per_second > 0 AND peak_bytes > 1000000)"), 6);
  EXPECT_EQ(count(path, "count(DISTINCT curve)"), 2);
  EXPECT_EQ(count(path, "sum(reference)"), 3);
  const Store read = Store::open_reader(path);
  EXPECT_EQ(read.database().execAndGet("SELECT identical_prefix FROM v_curve_diff").getInt64(),
            report.curves.at(0).identical_steps);
}

}  // namespace
}  // namespace lockstep::suites
