// SPDX-License-Identifier: Apache-2.0
// What the ReportModel decides: which runs count, which code wins, which word comes first.
#include "ci/output/report_model.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "ci/output/output.h"
#include "dashboard/store/testing.h"

namespace lockstep::output {
namespace {

using dashboard::Recorder;
using dashboard::Store;
using dashboard::Verdict;
using dashboard::testing::sample_case;
using dashboard::testing::sample_run;
using dashboard::testing::TemporaryFolder;

void record(Store& store, const std::string& id, const std::string& build, int64_t started,
            const std::vector<Verdict>& verdicts, int code) {
  dashboard::Run run = sample_run(id);
  run.build_hash = build;
  run.commit = "of " + build;
  run.started_ms = started;
  run.plan = "{}";
  Recorder recorder(store, run, "w");
  int64_t number = 0;
  for (const Verdict v : verdicts) recorder.record(sample_case(number++, v));
  recorder.finish("finished", code);
}

void judge(Store& store, const std::string& build, int code, const std::string& codes) {
  SQLite::Statement s(
      store.database(),
      "INSERT INTO judgement (key, judged_ms, baseline, candidate, commit_id, build_hash, policy, "
      "exit_code, codes) VALUES (randomblob(16), 5, '', '', '', ?, '{}', ?, ?)");
  s.bind(1, build);
  s.bind(2, code);
  s.bind(3, codes);
  s.exec();
}

TemporaryFolder folder;
Store fresh() {
  static int n = 0;
  return Store::open_writer(folder / ("store" + std::to_string(++n) + ".db"));
}

// Catches an empty store that is green.
TEST(ReportModel, NothingIsRed) {
  const ReportModel p = read_report_model(fresh());
  EXPECT_TRUE(headline(p).red);
  EXPECT_TRUE(exit_codes(p).empty());
  EXPECT_NE(render_junit(p).find("failures=\"1\""), std::string::npos);
  EXPECT_NE(render_annotations(p).find("::error"), std::string::npos);
}

// Catches runs of an older build that are counted, and cases of the newest that are not.
TEST(ReportModel, TheNewestBuildCounts) {
  Store store = fresh();
  record(store, "old", "b1", 1000, {Verdict::kDifferent, Verdict::kDifferent}, 1);
  record(store, "new", "b2", 9000, {Verdict::kEqual, Verdict::kExplained, Verdict::kEqual}, 0);
  const ReportModel p = read_report_model(store);
  EXPECT_EQ(p.counts["runs"], 1);
  EXPECT_EQ(p.counts["cases"], 3);
  EXPECT_EQ(p.counts["failures"], 0);
  using Some = std::vector<std::pair<std::string, int64_t>>;
  const Some kinds{{"verdict.equal", 2}, {"verdict.explained", 1}, {"bucket.incubating", 1},
                   {"finding.block", 0}, {"finding.note", 0},      {"finding.warn", 0}};
  EXPECT_EQ(Some(p.counts.begin() + 15, p.counts.end()), kinds);
  EXPECT_FALSE(headline(p).red);
  EXPECT_EQ(exit_codes(p), std::vector<int>{0});
}

// Catches a wrong order of the codes, one that is lost, and a 0 beside others.
TEST(ReportModel, TheCodesOfSeveralRunsAreInTheirOrder) {
  Store store = fresh();
  int64_t at = 0;
  for (const int code : {0, 77, 4, 6, 1, 5, 8, 3, 2})
    record(store, "run " + std::to_string(code), "b", 1000 * ++at, {Verdict::kEqual}, code);
  const ReportModel p = read_report_model(store);
  EXPECT_EQ(exit_codes(p), (std::vector<int>{2, 3, 8, 5, 1, 6, 4, 77}));
  EXPECT_EQ(headline(p).text, "The run ended with code 2.");
}

// Catches a judgement that is not heard, and one of another binary that is.
TEST(ReportModel, TheJudgementOfTheseRunsDecides) {
  Store store = fresh();
  record(store, "run", "b", 1000, {Verdict::kEqual, Verdict::kDifferent}, 1);
  judge(store, "other", 0, "[0]");
  EXPECT_EQ(exit_codes(read_report_model(store)), std::vector<int>{1});
  EXPECT_EQ(headline(read_report_model(store)).text, "1 case fails in 1 bucket.");
  store.database().exec("DELETE FROM judgement");
  judge(store, "b", 5, "[1, 5, 4]");
  EXPECT_EQ(exit_codes(read_report_model(store)), (std::vector<int>{5, 1, 4}));
  EXPECT_EQ(headline(read_report_model(store)).text,
            "The gate is red: 0 findings block. 1 case fails in 1 bucket.");
  store.database().exec("DELETE FROM judgement");
  judge(store, "b", 0, "not JSON");
  EXPECT_EQ(exit_codes(read_report_model(store)), std::vector<int>{0});
  EXPECT_FALSE(headline(read_report_model(store)).red);
}

// Catches a bucket that two runs of the build met and that counts twice.
TEST(ReportModel, ABucketOfTwoRunsIsOne) {
  Store store = fresh();
  record(store, "first", "b", 1000, {Verdict::kDifferent}, 1);
  record(store, "second", "b", 2000, {Verdict::kDifferent, Verdict::kEqual}, 1);
  const ReportModel p = read_report_model(store);
  EXPECT_EQ(p.counts["failures"], 2);
  EXPECT_EQ(p.counts["buckets"], 1);
  EXPECT_EQ(p.failures.at(0).text("run"), "second");
}

// Catches rows that stay behind in the connection, and counts that change by being read.
TEST(ReportModel, ReadsTwiceTheSame) {
  Store store = fresh();
  record(store, "run", "b", 1000, {Verdict::kEqual, Verdict::kDifferent, Verdict::kBroken}, 3);
  const ReportModel once = read_report_model(store), again = read_report_model(store);
  EXPECT_EQ(once.counts, again.counts);
  EXPECT_EQ(render_json(once), render_json(again));
  EXPECT_EQ(headline(once).text, "The harness itself failed in 1 case.");
}

}  // namespace
}  // namespace lockstep::output
