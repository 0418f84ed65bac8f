// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/witnesses.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "generators/cases/labels.h"
#include "oracle/program/program.h"

namespace lockstep::suites {
namespace {

using dashboard::KeptCase;

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("lockstep-witnesses-" + std::to_string(getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

std::string token_of(const char* suite, uint64_t seed, int64_t index) {
  return oracle::to_token(find_suite(suite).generate(seed, index));
}

// Cases 0 .. n-1 of the suite, all equal, each faster than the one before; number 3 of them failed.
dashboard::Run fill(dashboard::Store& store, const char* suite, int64_t n, uint64_t seed = 0) {
  dashboard::Run run;
  run.id = "run-" + std::to_string(seed) + suite;
  run.seed = seed;
  run.started_ms = 1000 + static_cast<int64_t>(seed);
  dashboard::Recorder recorder(store, run, "w");
  for (int64_t i = 0; i < n; ++i) {
    dashboard::CaseRow row;
    row.token = token_of(suite, seed, i);
    row.suite = suite;
    row.law = "law";
    row.number = i;
    row.time_ns = 1000 - i;
    row.how = "random";
    if (i == 3) row.verdict = dashboard::Verdict::kDifferent, row.bucket = "b";
    recorder.record(row);
  }
  recorder.finish("finished", 0);
  return run;
}

std::vector<KeptCase> of(const std::vector<KeptCase>& all, std::string_view origin) {
  std::vector<KeptCase> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some),
               [&](const auto& k) { return k.origin == origin; });
  return some;
}

bool has_label(const std::string& token, const std::string& label) {
  const auto labels = generators::labels(oracle::parse_token(token));
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

// The first passing case of each boundary label is kept, and the next run adds none. Catches: a failing case
// that is kept as passing, a label whose first case is passed over, and a corpus that grows with every run.
TEST(Witnesses, FirstCaseOfEachBoundaryLabel) {
  const Folder folder;
  auto store = dashboard::Store::open_writer((folder.path / "a.db").string());
  const auto run = fill(store, "ops", 200);
  const auto found = new_witnesses(store, run, {&find_suite("ops")}, {});
  const auto boundary = of(found, "boundary");
  for (const char* label : boundary_labels()) {
    std::string first;
    for (int64_t i = 0; i < 200 && first.empty(); ++i)
      if (const auto token = token_of("ops", 0, i); i != 3 && has_label(token, label)) first = token;
    ASSERT_FALSE(first.empty()) << label << ": 200 cases should have it";
    EXPECT_TRUE(std::any_of(boundary.begin(), boundary.end(), [&](const auto& k) {
      return k.token == first;
    })) << label;
  }
  EXPECT_LE(boundary.size(), boundary_labels().size());
  for (const auto& k : found) EXPECT_NE(k.token, token_of("ops", 0, 3)) << "it failed";
  const auto next = fill(store, "ops", 200, 1);
  EXPECT_TRUE(of(new_witnesses(store, next, {&find_suite("ops")}, found), "boundary").empty());
}

// Of all suites together the slowest are kept, known ones included, whatever their origin. Catches: a slow
// case of one run that pushes out a slower one, more than the stated number, and a boundary case that takes
// the place of a slow one.
TEST(Witnesses, TheSlowestOfAllThatAreKnown) {
  const Folder folder;
  auto store = dashboard::Store::open_writer((folder.path / "a.db").string());
  const auto run = fill(store, "ops", 20);
  const auto slow = of(new_witnesses(store, run, {&find_suite("ops")}, {}), "slow");
  std::set<std::string> tokens, wanted;
  for (const auto& k : slow) tokens.insert(k.token);
  std::set<std::string> boundary;
  for (const auto& k : of(new_witnesses(store, run, {&find_suite("ops")}, {}), "boundary"))
    boundary.insert(k.token);
  for (int64_t i = 0; i < 20 && std::ssize(wanted) < kSlowKept; ++i)
    if (const auto token = token_of("ops", 0, i); i != 3 && !boundary.contains(token)) wanted.insert(token);
  EXPECT_EQ(tokens, wanted);
  std::vector<KeptCase> known;
  for (int64_t i = 0; i < kSlowKept - 1; ++i)
    known.push_back({token_of("ops", 9, i), "ops", "", "slow", 1, "", 5000 + i});
  const auto more = of(new_witnesses(store, run, {&find_suite("ops")}, known), "slow");
  ASSERT_EQ(more.size(), 1U);
  EXPECT_TRUE(tokens.contains(more[0].token));
  EXPECT_TRUE(of(new_witnesses(store, run, {&find_suite("train")}, {}), "slow").empty())
      << "a finite suite's cases come in every run";
}

// What is replayed is bounded and does not depend on the order in which files were named. Catches: a merged
// database of many shards whose every boundary case is replayed.
TEST(Witnesses, ReplayedAreFewInAnyOrder) {
  std::vector<KeptCase> known;
  std::set<std::string> covered;
  for (int64_t i = 0; i < 150; ++i) {
    known.push_back({token_of("ops", 0, i), "ops", "", "boundary", i, ""});
    known.push_back({token_of("ops", 1, i), "ops", "", "slow", i, "", 1000 - i});
    for (const char* label : boundary_labels())
      if (has_label(known[known.size() - 2].token, label)) covered.insert(label);
  }
  known.push_back({token_of("ops", 1, 140), "ops", "", "slow", 1, "", 9000});  // one slow moment, 860 else
  known.push_back({"v1:ops;a later version", "ops", "b", "failure", 1, ""});
  const auto thin = thin_witnesses(known);
  EXPECT_LE(of(thin, "boundary").size(), boundary_labels().size());
  EXPECT_EQ(of(thin, "failure").size(), 1U);
  for (const auto& label : covered)
    EXPECT_TRUE(std::any_of(thin.begin(), thin.end(), [&](const auto& k) {
      return k.origin == "boundary" && has_label(k.token, label);
    })) << label;
  const auto slow = of(thin, "slow");
  ASSERT_EQ(std::ssize(slow), kSlowKept);
  for (int64_t i = 0; i < kSlowKept; ++i)
    EXPECT_EQ(slow[static_cast<size_t>(i)].token, token_of("ops", 1, i));
  std::reverse(known.begin(), known.end());
  auto again = thin_witnesses(known);
  EXPECT_EQ(of(again, "boundary"), of(thin, "boundary"));
  EXPECT_EQ(of(again, "slow"), slow);
}

}  // namespace
}  // namespace lockstep::suites
