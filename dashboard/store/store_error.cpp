// SPDX-License-Identifier: Apache-2.0
// What SQLite's error codes mean to a user, and what to do about them.
#include <SQLiteCpp/Exception.h>
#include <sqlite3.h>

#include <cerrno>

#include "dashboard/store/store.h"

namespace lockstep::dashboard {

using Kind = StoreError::Kind;

Kind kind_of_errno(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return Kind::kFull;
  return error == EACCES || error == EROFS || error == EPERM ? Kind::kReadonly : Kind::kUnreadable;
}

namespace {

struct Meaning {
  int code;  // extended, or primary where all its extensions mean the same
  Kind kind;
  const char* text;
};

// Extended codes stand before the primary code that they refine.
constexpr Meaning kMeanings[] = {
    {SQLITE_READONLY_ROLLBACK, Kind::kReadonly,
     "a writer was killed while it wrote, and its last commit must be rolled back; open the file once from a "
     "place "
     "where it may be written"},
    {SQLITE_READONLY, Kind::kReadonly,
     "may not be written; change the permissions, or choose another file with --db"},
    {SQLITE_PERM, Kind::kReadonly,
     "may not be opened so; change the permissions, or choose another file with --db"},
    {SQLITE_CANTOPEN, Kind::kUnreadable,
     "cannot be opened; check the path and the permissions of file and folder"},
    {SQLITE_NOTADB, Kind::kForeign, "is no SQLite database, or only the rest of one; name another file"},
    {SQLITE_CORRUPT, Kind::kCorrupt, "is damaged; restore it from a copy: it is not repaired"},
    {SQLITE_FULL, Kind::kFull, "the disk is full; free some space and run again: what was committed is kept"},
    {SQLITE_IOERR_SHORT_READ, Kind::kCorrupt, "ends too early; restore it from a copy: it is not repaired"},
    {SQLITE_IOERR_READ, Kind::kUnreadable, "cannot be read; check the disk"},
    {SQLITE_IOERR, Kind::kFull,
     "cannot be written: disk, quota or file size limit exhausted, or a broken disk; make room and run "
     "again: what was "
     "committed is kept"},
    {SQLITE_BUSY, Kind::kLocked,
     "another process is writing it; wait for it, or write another file with --db"},
    {SQLITE_LOCKED, Kind::kLocked, "another connection is writing it; close that one first"},
};

}  // namespace

void rethrow_as_store_error(const std::string& path) {
  try {
    throw;
  } catch (const SQLite::Exception& e) {
    for (const Meaning& m : kMeanings) {
      if (m.code != e.getExtendedErrorCode() && m.code != (e.getErrorCode() & 0xff)) continue;
      throw StoreError(m.kind, "[store] " + path + ": " + m.text + " (" + e.what() + ")");
    }
    throw;
  }
}

}  // namespace lockstep::dashboard
