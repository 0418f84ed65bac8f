// SPDX-License-Identifier: Apache-2.0
// Which runs a page speaks about, and views that are computed once for all its panels. Both live in temporary
// tables of the connection: the file may be read-only.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>

namespace lockstep::dashboard {

// The table `shown` holds the runs of the build and commit that ran last.
void show_newest_build(SQLite::Database& db);
// It holds this run alone. @returns false, and shows nothing, if there is no such run.
bool show_run(SQLite::Database& db, int64_t run_id);

// A temporary table of the same name comes before a view: what reads every case is computed once. While this
// lives, the connection sees the file as it was.
class Remembered {
 public:
  explicit Remembered(SQLite::Database& db);
  ~Remembered();
  Remembered(const Remembered&) = delete;
  Remembered& operator=(const Remembered&) = delete;

 private:
  SQLite::Database& db_;
};

}  // namespace lockstep::dashboard
