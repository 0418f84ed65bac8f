// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/prune.h"

#include <gtest/gtest.h>

#include "dashboard/store/merge.h"
#include "dashboard/store/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::read_file;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

constexpr int64_t kDay = 86'400'000;

CaseRow failing(int64_t number) {
  CaseRow row = sample_case(number, Verdict::kDifferent);
  row.bucket = "ops | value";
  return row;
}

// Two runs 40 days apart; in each 60 cases of which 40 are equal, 10 explained, 10 different.
void fill(const std::string& path) {
  Store store = Store::open_writer(path);
  for (int day : {0, 40}) {
    Run run = sample_run("day-" + std::to_string(day));
    run.commit = "commit-" + std::to_string(day);
    run.started_ms += day * kDay;
    Recorder recorder(store, run, "w");
    for (int64_t i = 0; i < 60; ++i) {
      CaseRow row = i % 6 == 4   ? sample_case(i, Verdict::kExplained)
                    : i % 6 == 5 ? failing(i)
                                 : sample_case(i);
      if (i == 7) row.evenness = "empty";  // the only one of its kind in its run
      if (i == 8) row.how = "corpus";
      recorder.record(row);
    }
    recorder.record(sample_case(9, Verdict::kExplained));  // the second outcome of case 9
    recorder.finish("finished", 0);
  }
}

// Everything that the views count, and every combination of which there is a token.
std::vector<std::string> told(const Store& store) {
  std::vector<std::string> lines;
  for (const char* query :
       {"SELECT run, cases, equal, explained, different, failures, buckets, bytes_moved FROM v_summary",
        "SELECT run, suite, verdict, cases, round(seconds, 6), bytes_moved FROM v_verdicts",
        "SELECT run, name, got, met FROM v_plan", "SELECT run, op, placement, verdict, hits FROM v_matrix",
        "SELECT run, bucket, cases, token FROM v_failures", "SELECT bucket, state, cases FROM v_buckets",
        "SELECT suite, what, outcomes FROM v_nondeterminism",
        "SELECT commit_id, cases, failures FROM v_commits",
        "SELECT DISTINCT suite, op, placement, mesh_rank, evenness, dtype, verdict FROM cases",
        "SELECT kind, name, round(value, 6), samples FROM v_throughput"}) {
    SQLite::Statement row(store.database(), query);
    while (row.executeStep()) {
      std::string line;
      for (int i = 0; i < row.getColumnCount(); ++i) line += row.getColumn(i).getString() + "|";
      lines.push_back(line);
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

int64_t cases_in(const Store& store) {
  return store.database().execAndGet("SELECT count(*) FROM cases").getInt64();
}

// Every count and every combination stays; only old cases that passed go. Catches: a removed failure, a count
// that shrinks, a combination that loses its last token.
TEST(Prune, SaysTheSameWithFewerRows) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  Store store = Store::open_writer(folder / "a.db");
  const auto before = told(store);
  const int64_t rows = cases_in(store);
  const auto list = prune(store, {.older_than_days = 30, .slowest = 3});
  EXPECT_EQ(told(store), before);
  int64_t removed = 0;
  for (const auto& p : list) {
    EXPECT_EQ(p.run, "day-0");
    EXPECT_NE(p.verdict, "different");
    removed += p.cases;
  }
  EXPECT_EQ(cases_in(store), rows - removed);
  EXPECT_GT(removed, 30);
  // Of the old run: 10 failures, 2 outcomes of case 9, the kept case, and of the 3 slowest the 2 that passed.
  EXPECT_EQ(store.database().execAndGet("SELECT count(*) FROM cases WHERE run = 1").getInt64(), 15);
  EXPECT_TRUE(prune(store, {.older_than_days = 30, .slowest = 3}).empty())
      << "the second time there is nothing to do";
}

// A case that passed and went is still known by its key; one that came out in two ways has not gone. Catches:
// a gate that takes a case of a pruned baseline for one that was never run.
TEST(Prune, LeavesTheKeysOfWhatGoes) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  Store store = Store::open_writer(folder / "a.db");
  SQLite::Database& db = store.database();
  db.exec("CREATE TEMP TABLE before AS SELECT run, substr(key, 1, 8) AS key, verdict FROM cases");
  const auto number = [&](const std::string& query) { return db.execAndGet("SELECT " + query).getInt64(); };
  const int64_t rows = cases_in(store);
  prune(store, {.older_than_days = 30, .slowest = 3});
  EXPECT_EQ(number("count(*) FROM settled"), rows - cases_in(store));
  EXPECT_EQ(number("count(*) FROM settled WHERE (run, key, verdict) NOT IN (SELECT * FROM before)"), 0);
  EXPECT_EQ(number("count(*) FROM settled s JOIN cases c ON c.run = s.run AND substr(c.key, 1, 8) = s.key"),
            0);
}

// A boundary case that every run replays keeps its newest outcome, not one a run; the corpus keeps its token.
// Catches: a kept case of which no outcome is left, and replays that pile up for ever.
TEST(Prune, OfAKeptCaseThatPassesTheNewestReplayStays) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  for (int day : {0, 1, 2, 40}) {
    auto run = sample_run("day-" + std::to_string(day));
    run.seed = static_cast<uint64_t>(day);
    run.started_ms += day * kDay;
    Recorder recorder(store, run, "w");
    for (int64_t i = 0; i < 3; ++i) {
      CaseRow row = sample_case(i);
      row.number = -1 - i;
      row.how = "corpus";
      if (day < 40) recorder.record(row);
    }
    recorder.record(sample_case(9));  // the newest of its kind: none of the others stays as witness
    recorder.keep({"v1:case-0", "ops", "", "boundary", run.started_ms, "first with size-0"});
    recorder.keep({"v1:case-1", "ops", "", "slow", run.started_ms, ""});
    recorder.keep({"v1:case-2", "ops", "", "golden", run.started_ms, "was wrong"});
    recorder.finish("finished", 0);
  }
  prune(store, {.older_than_days = 30, .slowest = 0});
  std::vector<std::string> left;
  SQLite::Statement row(store.database(), R"(SELECT r.name || ' ' || c.token FROM cases c
      JOIN run r ON r.id = c.run WHERE c.how = 'corpus' ORDER BY 1)");
  while (row.executeStep()) left.push_back(row.getColumn(0).getString());
  EXPECT_EQ(left, (std::vector<std::string>{"day-0 v1:case-2", "day-1 v1:case-2", "day-2 v1:case-0",
                                            "day-2 v1:case-1", "day-2 v1:case-2"}));
  using Counts = std::vector<std::pair<std::string, int64_t>>;
  EXPECT_EQ(kept_by_origin(store), (Counts{{"boundary", 1}, {"golden", 1}, {"slow", 1}}));
}

// Catches: a dry run that writes, and one that says something else than what is then done.
TEST(Prune, ADryRunChangesNothing) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  const std::string bytes = read_file(folder / "a.db");
  std::vector<PrunedCount> said;
  {
    Store store = Store::open_writer(folder / "a.db");
    said = prune(store, {.older_than_days = 30, .slowest = 3, .dry = true});
  }
  EXPECT_EQ(read_file(folder / "a.db"), bytes);
  Store store = Store::open_writer(folder / "a.db");
  const auto done = prune(store, {.older_than_days = 30, .slowest = 3});
  ASSERT_EQ(said.size(), done.size());
  for (size_t i = 0; i < said.size(); ++i) EXPECT_EQ(said[i].cases, done[i].cases);
}

// Catches: a witness that goes because an equal one stays, which goes for the same reason.
TEST(Prune, OfOldRunsAloneOneWitnessOfEachStays) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  Store store = Store::open_writer(folder / "a.db");
  const auto before = told(store);
  prune(store, {.older_than_days = -1, .slowest = 0});  // every run is old
  EXPECT_EQ(told(store), before);
  EXPECT_LT(cases_in(store), 35);
}

// Catches: counts that double when a pruned file meets an unpruned copy of the same run.
TEST(Prune, APrunedRunIsNotJoinedWithItsUnprunedCopy) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  std::filesystem::copy_file(folder / "a.db", folder / "b.db");
  Store store = Store::open_writer(folder / "a.db");
  prune(store, {.older_than_days = 30, .slowest = 3});
  const auto before = told(store);
  const std::string from[] = {folder / "b.db"};
  std::string message;
  try {
    merge(store, from);
  } catch (const StoreError& e) {
    message = e.what();
  }
  EXPECT_NE(message.find("was pruned in one of the two files"), std::string::npos) << message;
  EXPECT_EQ(told(store), before);
}

}  // namespace
}  // namespace lockstep::dashboard
