// SPDX-License-Identifier: Apache-2.0
// A published copy holds what the database holds, and nothing else lies beside it.
#include "dashboard/store/publish.h"

#include <sys/stat.h>

#include "dashboard/store/testing.h"

namespace lockstep::dashboard {
namespace {

using testing::content;
using testing::error_of;
using testing::read_file;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;
using testing::write_file;
using Kind = StoreError::Kind;

// A store with free pages: rows that were written and deleted again.
void fill(const std::string& path) {
  Store store = Store::open_writer(path);
  Recorder recorder(store, sample_run(), "w");
  for (int i = 0; i < 2000; ++i)
    recorder.record(sample_case(i, i % 100 == 0 ? Verdict::kDifferent : Verdict::kEqual));
  recorder.finish("finished", 1);
  store.database().exec("DELETE FROM cases WHERE id > 100");
}

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Catches a copy that lost rows, kept the free pages, or left a journal or a temporary file behind.
TEST(Publish, HoldsTheSameRowsInLessRoom) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  const std::string before = read_file(folder / "a.db");
  const PublishedSize size = publish(folder / "a.db", folder / "copy.db", false);
  EXPECT_EQ(size.source, static_cast<int64_t>(before.size()));
  EXPECT_EQ(size.copy, static_cast<int64_t>(read_file(folder / "copy.db").size()));
  EXPECT_LT(size.copy, size.source / 2);
  EXPECT_EQ(files_in(folder.path), (std::vector<std::string>{"a.db", "copy.db"}));
  EXPECT_EQ(read_file(folder / "a.db"), before);
  EXPECT_EQ(content(Store::open_reader(folder / "copy.db")), content(Store::open_reader(folder / "a.db")));
  // Bytes 18 and 19 of the header: 1 is a rollback journal, 2 a write-ahead log.
  EXPECT_EQ(read_file(folder / "copy.db").substr(18, 2), "\1\1");
}

// Catches a baseline that lost a failure or a count, forgot a case that passed, or kept rows that no gate
// reads.
TEST(Publish, ForTheGateKeepsCountsFailuresAndKeys) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  publish(folder / "a.db", folder / "copy.db", false, Copy::kForGate);
  const Store whole = Store::open_reader(folder / "a.db"), copy = Store::open_reader(folder / "copy.db");
  const auto number = [](const Store& store, const std::string& query) {
    return store.database().execAndGet("SELECT " + query).getInt64();
  };
  for (const std::string same :
       {"sum(cases * (severity + 1)) FROM v_verdicts", "count(*) FROM v_failures",
        "sum(cases) FROM v_failures", "sum(hits) FROM v_coverage", "sum(hits) FROM v_labels",
        "sum(hits) FROM rate", "count(*) FROM cases WHERE verdict = 'different'"})
    EXPECT_EQ(number(copy, same), number(whole, same)) << same;
  EXPECT_EQ(number(copy, "count(*) FROM cases WHERE verdict <> 'different'"), 0);
  EXPECT_EQ(number(copy, "count(*) FROM settled"),
            number(whole, "count(*) FROM cases WHERE verdict = 'equal'"));
  EXPECT_GT(number(copy, "count(*) FROM settled"), 0);
}

// Catches a copy that is in write-ahead mode because its database was: it could not be read from a read-only
// disk.
TEST(Publish, LeavesTheWriteAheadLog) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  SQLite::Database(folder / "a.db", SQLite::OPEN_READWRITE).exec("PRAGMA journal_mode=WAL");
  publish(folder / "a.db", folder / "copy.db", false);
  EXPECT_EQ(read_file(folder / "copy.db").substr(18, 2), "\1\1");
}

// Catches a file of the user's that is overwritten, and a database that overwrites itself.
TEST(Publish, ReplacesOnlyWhenTold) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  write_file(folder / "copy.db", "mine");
  std::string message;
  EXPECT_EQ(error_of([&] { publish(folder / "a.db", folder / "copy.db", false); }, &message),
            Kind::kReadonly);
  EXPECT_NE(message.find("--force"), std::string::npos) << message;
  EXPECT_EQ(read_file(folder / "copy.db"), "mine");
  publish(folder / "a.db", folder / "copy.db", true);
  EXPECT_EQ(content(Store::open_reader(folder / "copy.db")), content(Store::open_reader(folder / "a.db")));
  EXPECT_EQ(error_of([&] { publish(folder / "a.db", folder / "a.db", true); }), Kind::kOutput);
  std::filesystem::create_hard_link(folder / "a.db", folder / "same.db");
  EXPECT_EQ(error_of([&] { publish(folder / "a.db", folder / "same.db", true); }), Kind::kOutput);
}

// Catches a copy that another database's journal would be rolled into when it is opened.
TEST(Publish, RefusesAForeignJournal) {
  const TemporaryFolder folder;
  fill(folder / "a.db");
  write_file(folder / "copy.db-journal", "hot");
  EXPECT_EQ(error_of([&] { publish(folder / "a.db", folder / "copy.db", true); }), Kind::kReadonly);
  EXPECT_EQ(read_file(folder / "copy.db-journal"), "hot");
}

// Catches a damaged database that is published as if it were whole, and a half copy that stays.
TEST(Publish, RefusesWhatCannotBeRead) {
  const TemporaryFolder folder;
  write_file(folder / "text.db", "no database at all, but long enough to be looked at as one");
  EXPECT_EQ(error_of([&] { publish(folder / "text.db", folder / "copy.db", false); }), Kind::kForeign);
  EXPECT_EQ(error_of([&] { publish(folder / "none.db", folder / "copy.db", false); }), Kind::kUnreadable);
  fill(folder / "a.db");
  EXPECT_NE(error_of([&] { publish(folder / "a.db", folder / "no/such/copy.db", false); }), Kind::kCorrupt);
  EXPECT_EQ(files_in(folder.path), (std::vector<std::string>{"a.db", "text.db"}));
}

}  // namespace
}  // namespace lockstep::dashboard
