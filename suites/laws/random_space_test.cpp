// SPDX-License-Identifier: Apache-2.0
// The gate over the random space: what it counts, and that pairs which are said not to exist are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "dashboard/store/recorder.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "generators/cases/programs.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/harness/random_coverage.h"

namespace lockstep::suites {
namespace {

using generators::Absent;

struct TemporaryStore {
  std::string path =
      concat(std::filesystem::temp_directory_path().string(), "/random-coverage-", getpid(), ".db");
  dashboard::Store store = dashboard::Store::open_writer(path);
  ~TemporaryStore() { std::filesystem::remove(path); }
};

dashboard::CaseRow row_of(const oracle::Case& c, dashboard::Verdict verdict) {
  dashboard::CaseRow row;
  row.suite = "random";
  row.token = oracle::to_token(c);
  row.verdict = verdict;
  return row;
}

// Catches: a case that counts though it gave up, pairs of another run or suite, a missing pair that is not
// named, or that leaves the run green.
TEST(RandomCoverage, CountsThePairsOfJudgedCases) {
  TemporaryStore temporary;
  dashboard::Run run;
  run.id = "r";
  run.plan = "{}";
  const auto& points = generators::covering_points();
  {
    dashboard::Recorder recorder(temporary.store, run, "w");
    for (size_t i = 0; i < points.size(); ++i)
      recorder.record(row_of(generators::random_point_case(generators::Random(9).split(i), points[i], 0),
                             i == 0 ? dashboard::Verdict::kGaveUp : dashboard::Verdict::kEqual));
    auto other = row_of(generators::random_point_case(generators::Random(9).split("other"), points[0], 0),
                        dashboard::Verdict::kEqual);
    other.suite = "program";
    recorder.record(other);
    recorder.flush();
  }
  const auto coverage = random_coverage(temporary.store, "r");
  std::set<generators::RandomPair> met;
  for (size_t i = 1; i < points.size(); ++i)
    for (const auto& pair : generators::pairs_of(points[i])) met.insert(pair);
  EXPECT_EQ(coverage.met, static_cast<int64_t>(met.size()));
  EXPECT_EQ(coverage.exist - coverage.met, static_cast<int64_t>(coverage.missing.size()));
  EXPECT_GE(coverage.missing.size(), 1u);  // the array has no point to spare, the first one included
  EXPECT_EQ(random_coverage(temporary.store, "another run").met, 0);

  dashboard::Recorder recorder(temporary.store, run, "supervisor");
  RunSummary summary, whole;
  judge(coverage, summary, recorder);
  EXPECT_EQ(summary.codes, std::set<int>{kNotMeasured});
  EXPECT_EQ(summary.lacking, coverage.missing);
  judge({coverage.exist, coverage.exist, {}}, whole, recorder);
  EXPECT_TRUE(whole.codes.empty() && whole.lacking.empty());
}

// Catches: a pair called impossible that the engine draws.
TEST(RandomCoverage, TheEngineRefusesToFillAPartialInPlace) {
  LockstepEngine engine;
  int64_t refused = 0;
  for (const auto& [pair, why] : generators::random_pairs()) {
    if (why != Absent::kPartial || pair.a != generators::kOperatorAxis) continue;
    generators::RandomPoint point = {pair.x, 0, pair.y, 0, 1};
    if (generators::random_placements()[pair.y].tensor_dims > 0) point[generators::kEvennessAxis] = 1;
    const auto c = generators::random_point_case(generators::Random(3).split(pair.x), point, 0);
    EXPECT_THROW(engine.run(c, false), Error) << oracle::describe(c);
    ++refused;
  }
  EXPECT_GE(refused, 30);
}

}  // namespace
}  // namespace lockstep::suites
