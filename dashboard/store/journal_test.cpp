// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/journal.h"

#include <sys/resource.h>

#include <csignal>

#include "dashboard/store/testing.h"
#include "dashboard/store/testing_process.h"

namespace lockstep::dashboard {
namespace {

using testing::error_of;
using testing::read_file;
using testing::TemporaryFolder;
using testing::write_file;
using Kind = StoreError::Kind;

void write_three(const std::string& path) {
  JournalWriter journal(path);
  journal.started(3, 17, 0xfeedfacecafebeef);
  journal.finished(3, 17, Verdict::kExplainedOverflow, 0xfeedfacecafebeef);
  journal.started(65535, INT64_MAX);
}

// Catches: a field that is dropped or swapped, a finished case reported as open.
TEST(Journal, ReadsWhatWasWritten) {
  const TemporaryFolder f;
  write_three(f / "j");
  const Journal journal = read_journal(f / "j");
  using K = JournalRecord::Kind;
  const std::vector<JournalRecord> expected = {
      {K::kStarted, Verdict::kEqual, 3, 17, 0xfeedfacecafebeef},
      {K::kFinished, Verdict::kExplainedOverflow, 3, 17, 0xfeedfacecafebeef},
      {K::kStarted, Verdict::kEqual, 65535, INT64_MAX, 0}};
  EXPECT_EQ(journal.records, expected);
  EXPECT_FALSE(journal.torn);
  EXPECT_EQ(journal.open_case(), expected.back());
  JournalWriter(f / "j").finished(65535, INT64_MAX, Verdict::kEqual);
  EXPECT_EQ(read_journal(f / "j").open_case(), std::nullopt);
  EXPECT_EQ(read_journal(f / "j").records.size(), 4u);
}

// Catches: a torn record that is read as one, or that makes the journal unreadable; a writer that appends
// after it.
TEST(Journal, ToleratesEveryTornEnd) {
  const TemporaryFolder f;
  write_three(f / "j");
  const std::string whole = read_file(f / "j");
  ASSERT_EQ(whole.size(), 8u + 3 * 24);
  for (size_t size = 0; size <= whole.size(); ++size) {
    write_file(f / "cut", whole.substr(0, size));
    const size_t records = size < 8 ? 0 : (size - 8) / 24;
    const Journal journal = read_journal(f / "cut");
    EXPECT_EQ(journal.records.size(), records) << size;
    EXPECT_EQ(journal.torn, size != 0 && (size < 8 || (size - 8) % 24 != 0)) << size;
    JournalWriter(f / "cut").started(1, 5);
    EXPECT_EQ(read_journal(f / "cut").records.size(), records + 1) << size;
    EXPECT_FALSE(read_journal(f / "cut").torn) << size;
  }
}

// Catches: damage that passes as a torn end, a foreign file that is appended to.
TEST(Journal, RefusesDamageAndForeignFiles) {
  const TemporaryFolder f;
  write_three(f / "j");
  std::string damaged = read_file(f / "j");
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  write_file(f / "damaged", damaged);
  write_file(f / "foreign", "a novel, by nobody");
  EXPECT_EQ(error_of([&] { read_journal(f / "damaged"); }), Kind::kCorrupt);
  EXPECT_EQ(error_of([&] { JournalWriter(f / "damaged"); }), Kind::kCorrupt);
  EXPECT_EQ(error_of([&] { read_journal(f / "foreign"); }), Kind::kForeign);
  EXPECT_EQ(error_of([&] { JournalWriter(f / "foreign"); }), Kind::kForeign);
  EXPECT_EQ(read_file(f / "foreign"), "a novel, by nobody");
  EXPECT_EQ(error_of([&] { read_journal(f / "none"); }), Kind::kUnreadable);
  EXPECT_EQ(error_of([&] { JournalWriter(f / "none/j"); }), Kind::kUnreadable);
}

// Catches: a short write that passes in silence.
TEST(Journal, FullDisk) {
  const TemporaryFolder f;
  EXPECT_EQ(testing::in_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{100, 100};
              setrlimit(RLIMIT_FSIZE, &limit);
              JournalWriter journal(f / "j");
              return error_of([&] {
                       for (int i = 0; i < 10; ++i) journal.started(0, i);
                     }) == Kind::kFull
                         ? 0
                         : 1;
            }),
            0);
  EXPECT_EQ(read_journal(f / "j").records.size(), 3u);
}

}  // namespace
}  // namespace lockstep::dashboard
