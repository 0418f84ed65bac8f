// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "dashboard/store/output_file.h"
#include "dashboard/store/schema_text.h"

namespace lockstep::dashboard {

namespace fs = std::filesystem;
using Kind = StoreError::Kind;

namespace {

constexpr int kBusyMilliseconds = 10'000;

[[noreturn]] void fail(Kind kind, const std::string& path, const std::string& what) {
  throw StoreError(kind, "[store] " + path + ": " + what);
}

std::string folder_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

// What the file system alone can tell, before SQLite looks. Opening the file here would drop the locks that
// another connection of this process holds on it.
void check_file(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found)
    fail(Kind::kUnreadable, path, "no such file; check the name");
  if (error) fail(Kind::kUnreadable, path, error.message() + "; check the path and its permissions");
  if (status.type() == fs::file_type::directory)
    fail(Kind::kUnreadable, path, "is a folder; name a database file");
  if (access(path.c_str(), R_OK) != 0)
    fail(Kind::kUnreadable, path, "may not be read; check its permissions");
  if (fs::file_size(path, error) == 0 && !error) {
    fail(Kind::kCorrupt, path, "is empty; restore it from a copy, or delete it to begin a new one");
  }
}

void check_folder_writable(const std::string& path) {
  const std::string folder = folder_of(path);
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail(Kind::kUnreadable, path, "its folder does not exist; create it first");
  if (access(folder.c_str(), W_OK) != 0) {
    fail(Kind::kReadonly, path,
         "its folder may not be written; choose another with --db, or change its permissions");
  }
}

SQLite::Database connect(const std::string& path, int flags) {
  // Absolute, so that a name such as "file:x" is no URI; the flag itself is needed by ATTACH in merge.
  SQLite::Database db(fs::absolute(path).string(), flags | SQLite::OPEN_URI, kBusyMilliseconds);
  sqlite3_extended_result_codes(db.getHandle(), 1);
  sqlite3_db_config(db.getHandle(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  db.exec(
      "PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA "
      "synchronous=FULL");
  return db;
}

int version_of(SQLite::Database& db) {
  return db.execAndGet("PRAGMA user_version").getInt();
}

// @returns the version; @throws unless the file is one of our databases, of a version up to `known`.
int check_identity(SQLite::Database& db, const std::string& path, int known) {
  if (db.execAndGet("PRAGMA application_id").getInt() != kApplicationId) {
    fail(Kind::kForeign, path, "is a SQLite database, but not one of Lockstep's; name another file");
  }
  const int version = version_of(db);
  if (version > known) {
    fail(Kind::kNewer, path,
         "has version " + std::to_string(version) + ", this program knows up to " + std::to_string(known) +
             "; read it with the Lockstep that wrote it, or a later one");
  }
  return version;
}

void check_pages(SQLite::Database& db, const std::string& path) {
  const std::string answer = db.execAndGet("PRAGMA quick_check(1)").getString();
  if (answer != "ok") {
    fail(Kind::kCorrupt, path, "is damaged (" + answer + "); restore it from a copy: it is not repaired");
  }
}

void drop_views(SQLite::Database& db) {
  std::vector<std::string> names;
  SQLite::Statement views(db, "SELECT name FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*'");
  while (views.executeStep()) names.push_back(views.getColumn(0).getString());
  views.reset();
  for (const std::string& name : names) db.exec("DROP VIEW " + name);
}

void step(SQLite::Database& db, Migrations migrations, int version) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  if (version_of(db) != version) return;  // another process was faster
  drop_views(db);
  db.exec(std::string(migrations[static_cast<size_t>(version)]));
  if (version + 1 == static_cast<int>(migrations.size())) db.exec(std::string(kSchemaViews));
  if (SQLite::Statement(db, "PRAGMA foreign_key_check").executeStep()) {
    throw StoreError(Kind::kCorrupt, "[store] rows refer to rows that do not exist; restore a copy");
  }
  db.exec("PRAGMA user_version=" + std::to_string(version + 1));
  transaction.commit();
}

// @post user_version is the number of migrations, the views are those of views.sql. Each step is one
// transaction: killed at any moment, the database has the version before or after a step. On the last version
// it does nothing.
void migrate(SQLite::Database& db, Migrations migrations) {
  if (version_of(db) == static_cast<int>(migrations.size())) return;
  db.exec("PRAGMA foreign_keys=OFF");  // no effect inside a transaction; steps may rebuild tables
  for (int v = version_of(db); v < static_cast<int>(migrations.size()); v = version_of(db))
    step(db, migrations, v);
  db.exec("PRAGMA foreign_keys=ON");
}

// @throws StoreError(corrupt) unless every table, index and view that the migrations make is there, with the
// same text. More of them, made by a user, are welcome.
void check_tables(SQLite::Database& db, const std::string& path, Migrations migrations) {
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  migrate(fresh, migrations);
  SQLite::Statement ours(fresh, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  SQLite::Statement theirs(db, "SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ? AND sql = ?");
  while (ours.executeStep()) {
    theirs.reset();
    for (int i = 0; i < 3; ++i) theirs.bind(i + 1, ours.getColumn(i).getString());
    if (theirs.executeStep()) continue;
    fail(Kind::kCorrupt, path,
         ours.getColumn(0).getString() + " " + ours.getColumn(1).getString() +
             " is missing or was changed; restore the file from a copy");
  }
}

// Opens and checks an existing file. A reader cannot roll back what a killed writer left half committed, so
// that is done first, by a connection that may write; it brings back the last committed state and nothing
// else.
SQLite::Database open_checked(const std::string& path, int flags, int known) {
  check_file(path);
  const auto checked = [&] {
    SQLite::Database db = connect(path, flags);
    check_identity(db, path, known);
    check_pages(db, path);
    return db;
  };
  try {
    try {
      return checked();
    } catch (const SQLite::Exception& e) {
      if (e.getExtendedErrorCode() != SQLITE_READONLY_ROLLBACK) throw;
    }
    connect(path, SQLite::OPEN_READWRITE).execAndGet("PRAGMA schema_version");
    return checked();
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(path);
  }
}

// Creates the whole database beside the path and gives it the name only then: nobody ever sees half of one.
void create(const std::string& path, Migrations migrations) {
  check_folder_writable(path);
  const TemporaryFile file(path + ".new-" + std::to_string(getpid()));
  try {
    SQLite::Database db = connect(file.path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
    db.exec("PRAGMA auto_vacuum=INCREMENTAL; PRAGMA application_id=" + std::to_string(kApplicationId));
    migrate(db, migrations);
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(path);
  }
  if (link(file.path.c_str(), path.c_str()) == 0 || errno == EEXIST) return;
  if (rename(file.path.c_str(), path.c_str()) != 0) {
    fail(Kind::kReadonly, path, std::string("cannot be created: ") + std::strerror(errno));
  }
}

TemporaryFile temporary_copy(SQLite::Database& db) {
  std::string name = (fs::temp_directory_path() / "lockstep-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) fail(Kind::kReadonly, name, "no temporary file can be created; set TMPDIR");
  close(descriptor);
  TemporaryFile file(name);
  SQLite::Statement copy(db, "VACUUM INTO ?");
  copy.bind(1, name);
  copy.exec();
  return file;
}

}  // namespace

Migrations released_migrations() {
  static const std::array<std::string_view, 5> list = {kSchema1, kSchema2, kSchema3, kSchema4, kSchema5};
  return list;
}

struct Store::Impl {
  TemporaryFile copy;  // of an older database, else unnamed; outlives the connection
  std::string path;
  SQLite::Database db;
};

Store::Store(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;
SQLite::Database& Store::database() const {
  return impl_->db;
}
const std::string& Store::path() const {
  return impl_->path;
}

Store Store::open_writer(const std::string& path, Migrations migrations) {
  std::error_code error;
  if (!fs::exists(path, error) && !error) create(path, migrations);
  const int known = static_cast<int>(migrations.size());
  SQLite::Database db = open_checked(path, SQLite::OPEN_READWRITE, known);
  if (sqlite3_db_readonly(db.getHandle(), "main") == 1) {
    fail(Kind::kReadonly, path,
         "may not be written; change its permissions, or write another file with --db");
  }
  check_folder_writable(path);
  try {
    migrate(db, migrations);
    check_tables(db, path, migrations);
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(path);
  }
  return Store(std::unique_ptr<Impl>(new Impl{{}, path, std::move(db)}));
}

Store Store::open_reader(const std::string& path, Migrations migrations) {
  const int known = static_cast<int>(migrations.size());
  SQLite::Database db = open_checked(path, SQLite::OPEN_READONLY, known);
  try {
    if (check_identity(db, path, known) == known) {
      check_tables(db, path, migrations);
      return Store(std::unique_ptr<Impl>(new Impl{{}, path, std::move(db)}));
    }
    TemporaryFile copy = temporary_copy(db);
    SQLite::Database migrated = connect(copy.path, SQLite::OPEN_READWRITE);
    migrate(migrated, migrations);
    check_tables(migrated, path, migrations);
    const std::string name = copy.path;
    return Store(std::unique_ptr<Impl>(new Impl{std::move(copy), name, std::move(migrated)}));
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(path);
  }
}

}  // namespace lockstep::dashboard
