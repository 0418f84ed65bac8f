// SPDX-License-Identifier: Apache-2.0
// The life of a bucket: v_buckets against the same rules written as a loop, for every history of four
// commits and for
// generated longer ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "dashboard/store/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;

// What a commit says of the bucket: its case failed; the kept case was replayed and passed; both (another
// case of the
// bucket failed); nothing.
enum Said { kNothing, kFailed, kClean, kBoth };
const std::string kBucket = "ops | value";

struct Life {
  std::string state;
  int first = 0, last = 0, commits = 0, clean = 0;
  bool operator==(const Life&) const = default;
};

void write(const std::vector<Said>& history, Store& store) {
  for (size_t n = 0; n < history.size(); ++n) {
    Run run = sample_run("run " + std::to_string(n));
    run.commit = "commit " + std::to_string(n);
    run.build_hash = "build " + std::to_string(n);
    run.started_ms += static_cast<int64_t>(n) * 1000;
    Recorder recorder(store, run, "w");
    CaseRow row = sample_case(1);
    if (history[n] == kFailed || history[n] == kBoth) {
      row = sample_case(1, Verdict::kDifferent);
      row.bucket = kBucket;
    }
    recorder.record(row);
    if (history[n] == kClean || history[n] == kBoth)
      recorder.record(Replayed{"v1:case-9", kBucket, Verdict::kEqual, ""});
    recorder.finish("finished", 0);
  }
}

// The rules of v_buckets in words of this language; nothing where the bucket never failed.
std::optional<Life> expected(const std::vector<Said>& history) {
  Life life;
  int before_last = -1, clean_before_last = 0, clean = 0;
  bool failed = false;
  for (int n = 0; n < static_cast<int>(history.size()); ++n) {
    if (history[static_cast<size_t>(n)] == kClean) ++clean;
    if (history[static_cast<size_t>(n)] != kFailed && history[static_cast<size_t>(n)] != kBoth) continue;
    if (!failed) life.first = n;
    before_last = failed ? life.last : -1;
    clean_before_last = clean;
    failed = true;
    life.last = n;
    ++life.commits;
    clean = 0;
  }
  if (!failed) return std::nullopt;
  life.clean = clean;
  const bool now = life.last == static_cast<int>(history.size()) - 1;
  life.state = now && before_last < 0          ? "new"
               : now && clean_before_last >= 3 ? "regressed"
               : now                           ? "active"
               : clean >= 3                    ? "fixed"
                                               : "incubating";
  return life;
}

std::optional<Life> seen(const std::vector<Said>& history) {
  const TemporaryFolder folder;
  Store store = Store::open_writer(folder / "a.db");
  write(history, store);
  SQLite::Statement row(store.database(),
                        "SELECT state, first_commit, last_commit, commits, clean_commits, bucket "
                        "FROM v_buckets");
  if (!row.executeStep()) return std::nullopt;
  const auto number = [&](int column) { return std::stoi(row.getColumn(column).getString().substr(7)); };
  Life life{row.getColumn(0).getString(), number(1), number(2), row.getColumn(3).getInt(),
            row.getColumn(4).getInt()};
  EXPECT_EQ(row.getColumn(5).getString(), kBucket);
  EXPECT_FALSE(row.executeStep()) << "one row a bucket";
  return life;
}

std::string text(const std::vector<Said>& history) {
  std::string letters;
  for (Said s : history) letters += "-FCB"[s];
  return letters;
}

// Catches: a state that depends on a commit that said nothing, and an off-by-one at either end of a history.
TEST(Buckets, EveryHistoryOfFourCommits) {
  for (int code = 0; code < 256; ++code) {
    std::vector<Said> history;
    for (int n = 0; n < 4; ++n) history.push_back(static_cast<Said>(code >> (2 * n) & 3));
    EXPECT_TRUE(seen(history) == expected(history)) << text(history);
  }
}

// Catches: "fixed" and "regressed" that come a commit too early or too late, or forget an older failure.
RC_GTEST_PROP(Buckets, LongerHistories, ()) {
  const auto length = *rc::gen::inRange(5, 12);
  const auto history = *rc::gen::container<std::vector<Said>>(
      static_cast<size_t>(length),
      rc::gen::weightedElement<Said>({{1, kNothing}, {2, kFailed}, {5, kClean}, {1, kBoth}}));
  RC_LOG() << text(history);
  RC_ASSERT(seen(history) == expected(history));
}

}  // namespace
}  // namespace lockstep::dashboard
