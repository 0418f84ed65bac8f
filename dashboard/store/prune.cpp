// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/prune.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "dashboard/store/sql.h"
#include "dashboard/store/store.h"

namespace lockstep::dashboard {
namespace {

// Parameters: age in ms, how many slow cases stay.
constexpr const char* kChoose = R"(
  CREATE TEMP TABLE doomed AS
  WITH kept AS (SELECT token FROM corpus WHERE origin IN ('boundary', 'slow')),
  again AS (SELECT c.id, row_number() OVER (PARTITION BY c.suite, c.token, c.verdict
                                            ORDER BY r.started_ms DESC, c.key) AS n
            FROM cases c JOIN run r ON r.id = c.run WHERE c.token IN kept),
  told AS (
    SELECT c.id, c.run, c.suite, c.self_check, c.verdict, c.how, c.token, v.failure,
           r.state = 'finished' AND r.started_ms < (SELECT max(started_ms) FROM run) - ?1 AS old,
           row_number() OVER (PARTITION BY c.run, c.suite ORDER BY c.time_ns DESC, c.key) <= ?2 AS slow,
           row_number() OVER (PARTITION BY c.suite, c.self_check, c.op, c.placement, c.mesh_rank, c.evenness,
               c.dtype,
                              c.verdict ORDER BY r.started_ms DESC, c.key) = 1 AS witness
    FROM cases c JOIN run r ON r.id = c.run JOIN verdict v ON v.name = c.verdict)
  SELECT id, run, suite, self_check, verdict FROM told
  WHERE old AND NOT failure AND NOT slow AND NOT witness
    AND id NOT IN (SELECT id FROM again WHERE n = 1) AND (how <> 'corpus' OR token IN kept)
    AND id NOT IN (SELECT c.id FROM cases c
                   JOIN (SELECT key FROM cases GROUP BY key HAVING count(DISTINCT outcome) > 1) k ON
            k.key = c.key))";

constexpr const char* kCount = R"(
  INSERT INTO pruned
  SELECT c.run, c.suite, c.self_check, c.verdict, count(*), sum(c.time_ns), sum(c.bytes_moved)
  FROM doomed d JOIN cases c ON c.id = d.id GROUP BY c.run, c.suite, c.self_check, c.verdict
  ON CONFLICT DO UPDATE SET cases = cases + excluded.cases, time_ns = time_ns + excluded.time_ns,
                            bytes_moved = bytes_moved + excluded.bytes_moved)";

// The gate finds a case again by its key.
constexpr const char* kSettle = R"(
  INSERT OR IGNORE INTO settled
  SELECT c.run, substr(c.key, 1, 8), c.verdict FROM doomed d JOIN cases c ON c.id = d.id
  WHERE NOT c.self_check)";

constexpr const char* kChoosePassed = R"(
  DROP TABLE IF EXISTS temp.doomed;
  CREATE TEMP TABLE doomed AS
  SELECT c.id, c.run, c.suite, c.self_check, c.verdict FROM cases c JOIN verdict v ON v.name = c.verdict
  WHERE NOT v.failure)";

// Sums over the workers; of coverage over meshes too, and how evenly: no rule of the gate asks for them.
void pool_counts(SQLite::Database& db) {
  const auto pool = [&](const std::string& table, const std::string& columns, const std::string& pooled) {
    db.exec("CREATE TEMP TABLE pooled AS SELECT run, 'all', " + pooled + ", sum(hits) FROM " + table +
            " GROUP BY run, " + columns + "; DELETE FROM " + table + "; INSERT INTO " + table +
            " SELECT * FROM pooled; DROP TABLE temp.pooled");
  };
  pool("coverage", "op, placement, verdict", "op, placement, 0, '', verdict");
  pool("rate", "suite, op, placement, verdict", "suite, op, placement, verdict");
  pool("label", "label", "label");
}

void remove_doomed(SQLite::Database& db) {
  db.exec(kCount);
  db.exec(kSettle);
  db.exec("DELETE FROM cases WHERE id IN (SELECT id FROM doomed); DROP TABLE temp.doomed");
}

std::vector<PrunedCount> counts(SQLite::Database& db) {
  SQLite::Statement row(db, R"(SELECT r.name, d.suite, d.verdict, count(*),
      (SELECT count(*) FROM cases c WHERE c.run = d.run AND c.suite = d.suite AND c.verdict = d.verdict)
      FROM doomed d JOIN run r ON r.id = d.run GROUP BY d.run, d.suite, d.verdict ORDER BY r.started_ms, 2,
          3)");
  std::vector<PrunedCount> list;
  while (row.executeStep()) list.push_back(row.getColumns<PrunedCount, 5>());
  return list;
}

void choose(SQLite::Database& db, const PruneOptions& options) {
  db.exec("DROP TABLE IF EXISTS temp.doomed");
  SQLite::Statement statement(db, kChoose);
  sql::run(statement, options.older_than_days * 86'400'000, options.slowest);
}

}  // namespace

std::vector<PrunedCount> prune(Store& store, const PruneOptions& options) {
  SQLite::Database& db = store.database();
  try {
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    choose(db, options);
    auto list = counts(db);
    if (options.dry || list.empty()) return list;  // rolled back
    remove_doomed(db);
    transaction.commit();
    db.exec("VACUUM");
    return list;
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(store.path());
  }
}

void condense(SQLite::Database& db) {
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  db.exec(kChoosePassed);
  remove_doomed(db);
  pool_counts(db);
  transaction.commit();
  db.exec("VACUUM");
}

std::vector<std::pair<std::string, int64_t>> kept_by_origin(const Store& store) {
  SQLite::Statement row(store.database(),
                        "SELECT origin, count(*) FROM v_corpus GROUP BY origin ORDER BY origin");
  std::vector<std::pair<std::string, int64_t>> list;
  while (row.executeStep()) list.emplace_back(row.getColumn(0).getString(), row.getColumn(1).getInt64());
  return list;
}

}  // namespace lockstep::dashboard
