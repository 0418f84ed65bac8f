// SPDX-License-Identifier: Apache-2.0
// A Lockstep database: opening, creating, migrating, and the errors of doing so. What it holds is in schema/.
#pragma once
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace SQLite {
class Database;
}

namespace lockstep::dashboard {

// Why a store cannot be used. The program ends with code 7 for each of them but the last, a mistake of usage.
struct StoreError : std::runtime_error {
  enum class Kind {
    kUnreadable,  // no such file, no permission, a folder
    kNewer,       // written by a later version
    kForeign,     // no database, or another program's
    kCorrupt,     // truncated, damaged, or its tables are not ours
    kFull,        // no room: full disk, quota, file size limit
    kLocked,      // another process writes it
    kReadonly,    // file, folder or file system may not be written
    kOutput,      // another kind of output would replace a database
  };
  StoreError(Kind k, const std::string& what) : std::runtime_error(what), kind(k) {}
  Kind kind;
};
// What a system call's error means: no room, no permission, or another.
StoreError::Kind kind_of_errno(int error);

// "LOCK" in the file's header tells our databases from others.
inline constexpr int kApplicationId = 0x4c4f434b;

// The statements that lead from version i to version i + 1, at index i. Released entries never change.
using Migrations = std::span<const std::string_view>;
Migrations released_migrations();

// Opening checks, in this order: readable, a SQLite file, our application id, a version we know, undamaged
// pages, our tables. Nothing is ever repaired, and a file that is refused stays as it was, byte for byte. The
// connection must not cross fork().
class Store {
 public:
  // Creates the file if it is missing (complete or not at all) and migrates an older one, each step in a
  // transaction. One writer per file: a second one is refused with kLocked. Readers may come at any time.
  static Store open_writer(const std::string& path, Migrations migrations = released_migrations());
  // Never changes the file. An older database is migrated in a temporary copy.
  static Store open_reader(const std::string& path, Migrations migrations = released_migrations());

  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  SQLite::Database& database() const;
  // The file that holds the data: the path that was opened, or the migrated copy of an older one.
  const std::string& path() const;

 private:
  struct Impl;
  explicit Store(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Rethrows the SQLite error being handled as a StoreError that names the file and the remedy. Call it in a
// catch block.
[[noreturn]] void rethrow_as_store_error(const std::string& path);

}  // namespace lockstep::dashboard
