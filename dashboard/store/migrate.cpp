// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/migrate.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <vector>

#include "dashboard/store/schema_text.h"

namespace lockstep::dashboard {

Migrations released_migrations() {
  static const std::array<std::string_view, 3> list = {kSchema1, kSchema2, kSchema3};
  return list;
}

namespace {

int version_of(SQLite::Database& db) {
  return db.execAndGet("PRAGMA user_version").getInt();
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
    throw StoreError(StoreError::Kind::kCorrupt,
                     "[store] rows refer to rows that do not exist; restore a copy");
  }
  db.exec("PRAGMA user_version=" + std::to_string(version + 1));
  transaction.commit();
}

}  // namespace

void migrate(SQLite::Database& db, Migrations migrations) {
  if (version_of(db) == static_cast<int>(migrations.size())) return;
  db.exec("PRAGMA foreign_keys=OFF");  // no effect inside a transaction; steps may rebuild tables
  for (int v = version_of(db); v < static_cast<int>(migrations.size()); v = version_of(db))
    step(db, migrations, v);
  db.exec("PRAGMA foreign_keys=ON");
}

void check_tables(SQLite::Database& db, const std::string& path, Migrations migrations) {
  SQLite::Database fresh(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  migrate(fresh, migrations);
  SQLite::Statement ours(fresh, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  SQLite::Statement theirs(db, "SELECT 1 FROM sqlite_schema WHERE type = ? AND name = ? AND sql = ?");
  while (ours.executeStep()) {
    theirs.reset();
    for (int i = 0; i < 3; ++i) theirs.bind(i + 1, ours.getColumn(i).getString());
    if (theirs.executeStep()) continue;
    throw StoreError(StoreError::Kind::kCorrupt,
                     "[store] " + path + ": " + ours.getColumn(0).getString() + " " +
                         ours.getColumn(1).getString() +
                         " is missing or was changed; restore the file from a copy");
  }
}

}  // namespace lockstep::dashboard
