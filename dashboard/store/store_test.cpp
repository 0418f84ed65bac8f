// SPDX-License-Identifier: Apache-2.0
// Opening: what is refused, by which kind of error, and that a refused file stays as it was.
#include "dashboard/store/store.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "dashboard/store/schema_text.h"
#include "dashboard/store/testing.h"
#include "dashboard/store/testing_process.h"

namespace lockstep::dashboard {
namespace {

using testing::count;
using testing::error_of;
using testing::in_child;
using testing::read_file;
using testing::sample_case;
using testing::sample_run;
using testing::TemporaryFolder;
using testing::write_file;
using Kind = StoreError::Kind;
namespace fs = std::filesystem;

void make_store(const std::string& path, int cases = 40) {
  Store store = Store::open_writer(path);
  Recorder recorder(store, sample_run(), "w");
  for (int i = 0; i < cases; ++i)
    recorder.record(sample_case(i, i % 3 ? Verdict::kEqual : Verdict::kExplained));
  recorder.finish("finished", 0);
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

// Opens it both ways; each must fail with this kind, name the path, and leave every byte.
void expect_refused(const TemporaryFolder& folder, const std::string& file, Kind kind) {
  const std::string path = folder / file, before = read_file(path);
  const size_t files = files_in(folder.path);
  for (bool writer : {false, true}) {
    std::string message;
    EXPECT_EQ(error_of([&] { writer ? Store::open_writer(path) : Store::open_reader(path); }, &message), kind)
        << file << ": " << message;
    EXPECT_NE(message.find(path), std::string::npos) << message;
    EXPECT_NE(message.find(';'), std::string::npos) << "says what to do: " << message;
  }
  EXPECT_EQ(read_file(path), before) << file;
  EXPECT_EQ(files_in(folder.path), files) << file;
}

// Catches: a bad file that is taken for a new one, repaired, or reported as something else.
TEST(Store, RefusesWhatIsNotWhole) {
  const TemporaryFolder folder;
  make_store(folder / "good.db");
  const std::string good = read_file(folder / "good.db");
  ASSERT_GT(good.size(), 20000u);
  write_file(folder / "empty.db", "");
  write_file(folder / "half.db", good.substr(0, good.size() / 2));
  write_file(folder / "page.db", good.substr(0, good.size() - 4096));
  write_file(folder / "text.db", "a novel, by nobody\n");
  write_file(folder / "header.db", good.substr(0, 60));
  std::string damaged = good;
  for (size_t i = 4096 * 3; i < damaged.size(); i += 97) damaged[i] = static_cast<char>(damaged[i] ^ 0x5a);
  write_file(folder / "damaged.db", damaged);
  expect_refused(folder, "empty.db", Kind::kCorrupt);
  expect_refused(folder, "half.db", Kind::kCorrupt);
  expect_refused(folder, "page.db", Kind::kCorrupt);
  expect_refused(folder, "text.db", Kind::kForeign);
  expect_refused(folder, "header.db", Kind::kCorrupt);
  expect_refused(folder, "damaged.db", Kind::kCorrupt);
}

// Catches: another program's database written into, a later version read as if it were ours, lost tables
// overlooked.
TEST(Store, RefusesWhatIsNotOurs) {
  const TemporaryFolder folder;
  const struct {
    const char *file, *change;
    Kind kind;
  } table[] = {{"newer.db", "PRAGMA user_version=99", Kind::kNewer},
               {"other.db", "PRAGMA application_id=77", Kind::kForeign},
               {"view.db", "DROP VIEW v_summary", Kind::kCorrupt},
               {"table.db", "DROP TABLE gate", Kind::kCorrupt},
               {"column.db", "ALTER TABLE gate ADD COLUMN more TEXT", Kind::kCorrupt}};
  for (const auto& row : table) {
    make_store(folder / row.file);
    SQLite::Database(folder / row.file, SQLite::OPEN_READWRITE).exec(row.change);
    expect_refused(folder, row.file, row.kind);
  }
  SQLite::Database(folder / "foreign.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE t (x)");
  expect_refused(folder, "foreign.db", Kind::kForeign);
}

// Catches: a reader that creates, a folder opened as a file, a writer that makes folders.
TEST(Store, PathsThatCannotBe) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { Store::open_reader(folder / "none.db"); }), Kind::kUnreadable);
  EXPECT_EQ(error_of([&] { Store::open_writer(folder / "none/x.db"); }), Kind::kUnreadable);
  for (bool writer : {false, true}) {
    EXPECT_EQ(error_of([&] { writer ? Store::open_writer(folder.path) : Store::open_reader(folder.path); }),
              Kind::kUnreadable);
  }
  EXPECT_EQ(files_in(folder.path), 0u);
}

// Catches: names that SQLite would take for a URI or a memory database.
TEST(Store, AnyNameIsAFile) {
  const TemporaryFolder folder;
  for (const char* name :
       {"file:x?mode=memory", "a%20b#c.db", "it's \"quoted\".db", "\xc3\xa4.db", "-x.db"}) {
    make_store(folder / name, 3);
    EXPECT_EQ(count(Store::open_reader(folder / name), "cases"), 3) << name;
  }
}

constexpr fs::perms kReadable = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
constexpr fs::perms kEnterable = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;

// Catches: a read-only place reported as damage, a reader that needs to write.
TEST(Store, ReadOnlyFileAndFolder) {
  const TemporaryFolder folder;
  make_store(folder / "a.db", 3);
  fs::permissions(folder / "a.db", kReadable);
  EXPECT_EQ(in_child([&] {
              if (getuid() == 0 && setuid(65534) != 0) return 10;
              if (error_of([&] { Store::open_writer(folder / "a.db"); }) != Kind::kReadonly) return 1;
              return count(Store::open_reader(folder / "a.db"), "cases") == 3 ? 0 : 2;
            }),
            0);
  fs::permissions(folder / "a.db", fs::perms::all);
  fs::permissions(folder.path, kReadable | kEnterable);
  EXPECT_EQ(in_child([&] {
              if (getuid() == 0 && setuid(65534) != 0) return 10;
              if (error_of([&] { Store::open_writer(folder / "a.db"); }) != Kind::kReadonly) return 1;
              if (error_of([&] { Store::open_writer(folder / "new.db"); }) != Kind::kReadonly) return 2;
              return count(Store::open_reader(folder / "a.db"), "cases") == 3 ? 0 : 3;
            }),
            0);
  fs::permissions(folder.path, fs::perms::all);
  fs::permissions(folder / "a.db", fs::perms::none);
  EXPECT_EQ(in_child([&] {
              if (getuid() == 0 && setuid(65534) != 0) return 10;
              return error_of([&] { Store::open_reader(folder / "a.db"); }) == Kind::kUnreadable ? 0 : 1;
            }),
            0);
}

void limit_file_size(rlim_t bytes) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

// Catches: a full disk that loses what was committed, or that is reported as anything else.
TEST(Store, FullDiskKeepsWhatWasCommitted) {
  const TemporaryFolder folder;
  make_store(folder / "a.db", 100);
  EXPECT_EQ(in_child([&] {
              Store store = Store::open_writer(folder / "a.db");
              Recorder recorder(store, sample_run(), "w");
              limit_file_size(fs::file_size(folder / "a.db") + 8192);
              const Kind kind = error_of([&] {
                for (int i = 100; i < 100'000; ++i) recorder.record(sample_case(i, Verdict::kExplained));
              });
              return kind == Kind::kFull ? 0 : 1;
            }),
            0);
  EXPECT_EQ(in_child([&] {
              limit_file_size(4096);
              return error_of([&] { Store::open_writer(folder / "new.db"); }) == Kind::kFull ? 0 : 1;
            }),
            0);
  EXPECT_EQ(files_in(folder.path), 1u);
  const Store store = Store::open_reader(folder / "a.db");
  EXPECT_GE(count(store, "cases"), 100);
  EXPECT_EQ(store.database().execAndGet("PRAGMA integrity_check").getString(), "ok");
}

// Catches: two writers that mix their batches, or wait for ever; a reader that is locked out by a writer.
TEST(Store, ASecondWriterIsRefused) {
  const TemporaryFolder folder;
  Store first = Store::open_writer(folder / "a.db"), second = Store::open_writer(folder / "a.db");
  Recorder recorder(first, sample_run(), "w");
  recorder.record(sample_case(0));  // its batch is open
  second.database().setBusyTimeout(50);
  EXPECT_EQ(error_of([&] { Recorder(second, sample_run("other"), "v"); }), Kind::kLocked);
  EXPECT_EQ(count(Store::open_reader(folder / "a.db"), "cases"), 0);
  recorder.flush();
  EXPECT_NO_THROW(Recorder(second, sample_run("other"), "v"));
}

const std::vector<std::string_view>& future_migrations() {
  static const std::vector<std::string_view> list = {
      kSchema1, kSchema2, kSchema3,
      kSchema4, kSchema5, "ALTER TABLE gate ADD COLUMN owner TEXT NOT NULL DEFAULT ''"};
  return list;
}

// Writes the fixture of the newest version, for one who releases it:
// LOCKSTEP_FIXTURE=vN.db dashboard_store_test --gtest_also_run_disabled_tests --gtest_filter=*WriteFixture
TEST(Migrations, DISABLED_WriteFixture) {
  const char* path = std::getenv("LOCKSTEP_FIXTURE");
  ASSERT_NE(path, nullptr);
  Store store = Store::open_writer(path);
  dashboard::Run run = sample_run();
  run.version = "0.1.0";
  Recorder recorder(store, run, "w");
  for (int64_t i = 0; i < 12; ++i) {
    constexpr Verdict kCycle[] = {Verdict::kEqual, Verdict::kExplained, Verdict::kDifferent};
    CaseRow row = sample_case(i, i == 9 ? Verdict::kGaveUp : kCycle[i % 3]);
    if (i == 9) row.refusal = {"aten::t", "view"}, row.diffs.clear();
    if (i == 1) row.forgiven = {{"silent", "aten::detach", "it moves nothing", 2}};
    recorder.record(row);
  }
  const CaseRow failed = sample_case(2, Verdict::kDifferent);
  recorder.record(Failure{failed.bucket, failed.suite, failed.law, failed.verdict, failed.token, "y = mm(x)",
                          1, 3, false});
  for (bool reference : {true, false}) {
    const Curve curve{
        reference ? "one device" : "tp:2", "llama", "init", "tp:2", "single", "exact", "f32", reference};
    const int64_t id = recorder.open_curve(curve);
    for (int64_t step = 0; step < 6; ++step) {
      const uint64_t off = !reference && step >= 3 ? 2 : 0;
      recorder.record(
          id, {.step = step, .loss_bits = 0x40000000 + off, .grad_norm_bits = 0x3f800000, .peak_bytes = 1});
    }
  }
  recorder.record(PlantedFault{"lost_partial", "K3", true, 4, 2, "ops", "v1:x", ""});
  recorder.record(ExpectedException{"aten::pow", "f32", "own loop", 2});
  recorder.record(Measurement{"rate", "1/s", 300});
  recorder.record(Gate{"plan", "2", "12", true});
  recorder.expect_op("aten::mm");
  recorder.record(Measurement{"dispatch", "us", 2, "candidate"});
  recorder.record(Series{"dispatch", "dispatch", false, false, "us"});
  recorder.record(Replayed{failed.token, failed.bucket, Verdict::kEqual, ""});
  recorder.record(Divergence{"tp:2", "one device", 40, 3, 7, "aten::mm", 1, "output", "00", "01"});
  recorder.record_fact("driver", "none");
  recorder.keep(KeptCase{failed.token, failed.suite, failed.bucket, "failure", 5, ""});
  recorder.finish("finished", 1);
}

// Catches: a released schema that was changed. The fixtures were written by the released versions; do not
// write them anew.
TEST(Migrations, FixturesOfEveryVersionReachTheFreshSchema) {
  const TemporaryFolder folder;
  Store fresh = Store::open_writer(folder / "fresh.db");
  const auto schema = [](const Store& store) {
    std::vector<std::string> lines;
    SQLite::Statement rows(store.database(),
                           "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name");
    while (rows.executeStep()) lines.push_back(rows.getColumn(0).getString());
    return lines;
  };
  for (size_t version = 1; version <= released_migrations().size(); ++version) {
    const std::string fixture = std::string(LOCKSTEP_FIXTURES) + "/v" + std::to_string(version) + ".db";
    fs::copy_file(fixture, folder / "old.db", fs::copy_options::overwrite_existing);
    const Store migrated = Store::open_writer(folder / "old.db");
    EXPECT_EQ(schema(migrated), schema(fresh)) << fixture;
    EXPECT_EQ(count(migrated, "v_summary WHERE cases = 12 AND failures = 4"), 1) << fixture;
    EXPECT_EQ(count(migrated, "v_diffs"), 8) << fixture;
    EXPECT_EQ(count(migrated, "verdict"), kVerdicts) << fixture;
    EXPECT_EQ(count(migrated, "v_curve_diff WHERE first_differing_step = 3 AND max_loss_ulp = 2"), 1)
        << fixture;
    EXPECT_EQ(count(migrated, "v_summary WHERE engine = 'lockstep'"), 1) << fixture;
    const int64_t counted = version < 3 ? 0 : 1;  // and never made up afterwards
    EXPECT_EQ(count(migrated, "v_summary WHERE engine_version = '0.1.0'"), counted) << fixture;
    EXPECT_EQ(count(migrated, "v_refusals WHERE suite = 'ops' AND reason = 'view' AND hits = 1"), counted);
    EXPECT_EQ(count(migrated, "v_forgiven WHERE kind = 'silent' AND hits = 2"), counted) << fixture;
    EXPECT_EQ(count(migrated, "rate WHERE suite = 'ops' AND op = 'aten::mm' AND placement = ''") > 0,
              version >= 4)
        << fixture;
    for (const char* view : {"v_faults", "v_exceptions", "v_gates"})
      EXPECT_EQ(count(migrated, view), 1) << view;
  }
}

// Catches: a step applied twice or half, rows lost by one, an older file changed by a reader.
TEST(Migrations, AnOlderDatabaseIsMigratedOnceAndReadWithoutChange) {
  const TemporaryFolder folder;
  make_store(folder / "a.db", 5);
  const std::string before = read_file(folder / "a.db");
  {
    const Store reader = Store::open_reader(folder / "a.db", future_migrations());
    EXPECT_EQ(count(reader, "cases"), 5);
    EXPECT_EQ(count(reader, "pragma_table_info('gate') WHERE name = 'owner'"), 1);
    EXPECT_TRUE(fs::exists(reader.path()));
  }
  EXPECT_EQ(read_file(folder / "a.db"), before);
  for (int i = 0; i < 2; ++i) {
    const Store writer = Store::open_writer(folder / "a.db", future_migrations());
    EXPECT_EQ(writer.database().execAndGet("PRAGMA user_version").getInt(), 6);
    EXPECT_EQ(count(writer, "cases"), 5);
  }
  EXPECT_EQ(error_of([&] { Store::open_writer(folder / "a.db"); }), Kind::kNewer);
}

// Catches: a failed step that leaves the database between two versions.
TEST(Migrations, AFailingStepChangesNothing) {
  const TemporaryFolder folder;
  make_store(folder / "a.db", 5);
  const std::vector<std::string_view> broken = {
      kSchema1, kSchema2, kSchema3, kSchema4, kSchema5, "DROP TABLE gate; CREATE TABLE nonsense ("};
  EXPECT_ANY_THROW(Store::open_writer(folder / "a.db", broken));
  EXPECT_EQ(count(Store::open_reader(folder / "a.db"), "gate"), 0);
}

}  // namespace
}  // namespace lockstep::dashboard
