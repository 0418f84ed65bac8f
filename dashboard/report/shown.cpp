// SPDX-License-Identifier: Apache-2.0
#include "dashboard/report/shown.h"

#include <string>

namespace lockstep::dashboard {

namespace {

// In the order in which they build on one another; each has a column run_id, by which it is indexed.
constexpr const char* kOnce[] = {"v_verdicts",      "v_summary", "v_plan",        "v_nondeterminism",
                                 "v_failures",      "v_matrix",  "v_coverage",    "v_labels",
                                 "v_coverage_gaps", "v_commits", "v_buckets",     "v_throughput",
                                 "v_series",        "v_curves",  "v_curve_steps", "v_curve_diff"};

void empty_shown(SQLite::Database& db) {
  db.exec("CREATE TEMP TABLE IF NOT EXISTS shown (id INTEGER PRIMARY KEY); DELETE FROM temp.shown");
}

}  // namespace

void show_newest_build(SQLite::Database& db) {
  empty_shown(db);
  db.exec(R"(INSERT INTO temp.shown SELECT id FROM run WHERE (build_hash, commit_id) =
    (SELECT build_hash, commit_id FROM run ORDER BY started_ms DESC, name DESC, key DESC LIMIT 1))");
}

bool show_run(SQLite::Database& db, int64_t run_id) {
  empty_shown(db);
  SQLite::Statement statement(db, "INSERT INTO temp.shown SELECT id FROM run WHERE id = ?");
  statement.bind(1, run_id);
  return statement.exec() == 1;
}

Remembered::Remembered(SQLite::Database& db) : db_(db) {
  for (const std::string view : kOnce)
    db_.exec("CREATE TEMP TABLE " + view + " AS SELECT * FROM main." + view + "; CREATE INDEX temp." + view +
             "_by_run ON " + view + " (run_id)");
}

Remembered::~Remembered() {
  for (const std::string view : kOnce) db_.tryExec("DROP TABLE IF EXISTS temp." + view);
}

}  // namespace lockstep::dashboard
