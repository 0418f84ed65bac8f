// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/publish.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "dashboard/store/output_file.h"
#include "dashboard/store/prune.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(StoreError::Kind kind, const std::string& path, const std::string& what) {
  throw StoreError(kind, "[publish] " + path + ": " + what);
}

void check_target(const std::string& database, const std::string& copy, bool replace) {
  std::error_code error;
  if (!fs::exists(copy, error)) return;
  check_not_database(copy, database, "-o");
  if (!fs::is_regular_file(copy, error)) fail(StoreError::Kind::kReadonly, copy, "is no file; name another");
  if (!replace)
    fail(StoreError::Kind::kReadonly, copy, "is there already; name another file, or pass --force");
}

// What only the file of another program would have beside it.
void check_alone(const std::string& copy) {
  for (const char* suffix : {"-journal", "-wal", "-shm"}) {
    std::error_code error;
    if (fs::exists(copy + suffix, error))
      fail(StoreError::Kind::kReadonly, copy + suffix,
           "belongs to a database that is being written, or whose writer was killed; remove it or name "
           "another copy");
  }
}

void write_copy(const Store& store, const std::string& path, Copy what) {
  try {
    SQLite::Statement vacuum(store.database(), "VACUUM INTO ?");
    vacuum.bind(1, path);
    vacuum.exec();
    SQLite::Database copy(path, SQLite::OPEN_READWRITE);
    if (what == Copy::kForGate) condense(copy);
    if (copy.execAndGet("PRAGMA journal_mode=DELETE").getString() != "delete")
      fail(StoreError::Kind::kCorrupt, path, "cannot leave its journal mode");
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(path);
  }
}

int64_t number(const Store& store, const std::string& query) {
  return store.database().execAndGet("SELECT " + query).getInt64();
}

// The copy opens as any store does, and holds as many rows, or counts as many cases, as what it was made
// from.
void check_copy(const Store& store, const std::string& path, Copy what) {
  const Store copy = Store::open_reader(path);
  const auto same = [&](const std::string& rows, const std::string& query) {
    if (number(copy, query) != number(store, query))
      fail(StoreError::Kind::kCorrupt, path, "the copy lacks " + rows + "; try again");
  };
  for (const std::string table : {"run", "failure", "judgement", "finding"})
    same("rows of " + table, "count(*) FROM " + table);
  same("cases", "coalesce(sum(cases), 0) FROM v_verdicts");
  if (what == Copy::kWhole)
    for (const std::string table : {"cases", "tensor_diff"})
      same("rows of " + table, "count(*) FROM " + table);
}

void sync(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

PublishedSize publish(const std::string& database, const std::string& copy, bool replace, Copy what) {
  const Store store = Store::open_reader(database);
  check_target(database, copy, replace);
  check_alone(copy);
  const TemporaryFile temporary(fs::absolute(copy).string() + ".new-" + std::to_string(getpid()));
  unlink(temporary.path.c_str());  // of a killed run with our number
  write_copy(store, temporary.path, what);
  check_copy(store, temporary.path, what);
  sync(temporary.path);
  const int named =
      replace ? rename(temporary.path.c_str(), copy.c_str()) : link(temporary.path.c_str(), copy.c_str());
  if (named != 0) fail(StoreError::Kind::kReadonly, copy, std::strerror(errno));
  return {static_cast<int64_t>(fs::file_size(database)), static_cast<int64_t>(fs::file_size(copy))};
}

}  // namespace lockstep::dashboard
