// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/merge.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <vector>

#include "dashboard/store/tables.h"

namespace lockstep::dashboard {

namespace {

// Rows of the shard that others belong to, and the same rows of the target, by content.
struct Parent {
  const char* column;  // of the others
  const char* same;    // query of both row numbers
  std::vector<const char*> others;
};
const Parent kParents[] = {
    {"run",
     "SELECT theirs.id, ours.id FROM shard.run theirs JOIN main.run ours ON ours.key = theirs.key",
     {"plan_item",   "cases",    "coverage",    "rate",    "label", "expected_exception",
      "refusal",     "forgiven", "expected_op", "failure", "curve", "planted_fault",
      "series",      "replayed", "pruned",      "settled", "fact",  "divergence",
      "measurement", "gate"}},
    {"curve",
     R"(SELECT c.id, o.id FROM shard.curve c JOIN same_run m ON m.theirs = c.run JOIN main.curve o
        ON (o.run, o.name, o.model, o.variant, o.mesh, o.policy, o.lane, o.dtype, o.reference)
         = (m.ours, c.name, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype, c.reference))",
     {"curve_point"}},
    {"case_id",
     R"(SELECT c.id, ours.id FROM shard.cases c JOIN same_run m ON m.theirs = c.run
        JOIN main.cases ours ON ours.key = c.key AND ours.run = m.ours AND ours.outcome = c.outcome
        WHERE c.id IN (SELECT case_id FROM shard.tensor_diff))",
     {"tensor_diff"}},
    {"judgement",
     "SELECT theirs.id, ours.id FROM shard.judgement theirs JOIN main.judgement ours ON ours.key = "
     "theirs.key",
     {"finding", "muted", "series_verdict"}}};

// `columns` of the rows of `from`. `WHERE true` tells the parser that ON CONFLICT belongs to the insert and
// not to a join.
void join(SQLite::Database& db, const std::string& table, const std::string& columns,
          const std::string& from) {
  db.exec("INSERT INTO main." + table + " (" + columns_of(db, table) + ") SELECT " + columns + " FROM " +
          from + " WHERE true " + on_conflict(db, table));
}

void join_tables(SQLite::Database& db) {
  for (const std::string table : {"run", "judgement", "corpus", "blessing"})
    join(db, table, columns_of(db, table), "shard." + table);
  for (const auto& [column, same, others] : kParents) {
    const std::string map = std::string("same_") + column;
    db.exec("CREATE TEMP TABLE " + map + " (theirs INTEGER PRIMARY KEY, ours INTEGER); INSERT INTO " + map +
            " " + same);
    for (const std::string table : others) {
      const std::string columns = columns_of(db, table, "t.%"), parent = std::string("t.") + column;
      join(db, table, "m.ours" + columns.substr(parent.size()),
           "shard." + table + " t JOIN " + map + " m ON m.theirs = " + parent);
    }
  }
  for (const Parent& p : kParents) db.exec(std::string("DROP TABLE same_") + p.column);
}

// Key of a run -> how many of its cases are only counted.
using Pruned = std::map<std::string, int64_t>;

// A pruned run has counts in place of cases; joined with its own unpruned copy it would count them twice.
void refuse_half_pruned(const Store& store, const std::string& path, Pruned& known) {
  SQLite::Statement row(store.database(), R"(
      SELECT hex(key), name, (SELECT coalesce(sum(cases), 0) FROM pruned WHERE run = run.id) FROM run)");
  while (row.executeStep()) {
    const int64_t cases = row.getColumn(2).getInt64();
    if (known.try_emplace(row.getColumn(0).getString(), cases).first->second == cases) continue;
    throw StoreError(
        StoreError::Kind::kForeign,
        "[merge] " + path + ": run " + row.getColumn(1).getString() +
            " was pruned in one of the two files and not, or otherwise, in the other; merge first, then "
            "prune");
  }
}

std::string uri_of(const std::string& path) {
  std::string uri = "file:";
  for (char c : std::filesystem::absolute(path).string()) {
    char code[4];
    std::snprintf(code, sizeof(code), "%%%02X", static_cast<unsigned char>(c));
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '/';
    plain ? uri.push_back(c) : void(uri += code);
  }
  return uri + "?mode=ro";
}

int64_t count_cases(SQLite::Database& db, const std::string& schema) {
  return db.execAndGet("SELECT count(*) FROM " + schema + ".cases").getInt64();
}

// The shard is attached to our connection while this lives.
struct Attached {
  SQLite::Database& db;
  Attached(SQLite::Database& database, const std::string& path) : db(database) {
    SQLite::Statement attach(db, "ATTACH ? AS shard");
    attach.bind(1, uri_of(path));
    attach.exec();
  }
  ~Attached() { db.tryExec("DETACH shard"); }
};

void merge_one(SQLite::Database& db, const std::string& path, MergeResult& result) {
  const Attached attached(db, path);
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const int64_t before = count_cases(db, "main"), theirs = count_cases(db, "shard");
  join_tables(db);
  const int64_t added = count_cases(db, "main") - before;
  transaction.commit();
  result.cases_added += added;
  result.cases_known += theirs - added;
  result.shards += 1;
}

int64_t count_nondeterministic(const Store& store) {
  return store.database().execAndGet("SELECT count(*) FROM v_nondeterminism").getInt64();
}

}  // namespace

MergeResult merge(Store& into, std::span<const std::string> shards) {
  MergeResult result;
  Pruned pruned;
  refuse_half_pruned(into, into.path(), pruned);
  for (const std::string& path : shards) {
    std::error_code error;
    if (std::filesystem::equivalent(path, into.path(), error))
      continue;  // joined with itself, nothing changes
    const Store shard = Store::open_reader(path);
    refuse_half_pruned(shard, path, pruned);
    try {
      merge_one(into.database(), shard.path(), result);
    } catch (const SQLite::Exception&) {
      rethrow_as_store_error(into.path());
    }
  }
  result.nondeterministic = count_nondeterministic(into);
  return result;
}

MergeResult merge_files(const std::string& into, std::span<const std::string> from) {
  std::vector<Store> sources;
  Pruned pruned;
  std::error_code error;
  for (const std::string& path : from) {
    if (std::filesystem::equivalent(path, into, error)) continue;
    sources.push_back(Store::open_reader(path));
    refuse_half_pruned(sources.back(), path, pruned);
  }
  Store target = Store::open_writer(into);
  refuse_half_pruned(target, into, pruned);
  MergeResult result;
  try {
    for (const Store& source : sources) merge_one(target.database(), source.path(), result);
    result.nondeterministic = count_nondeterministic(target);
  } catch (const SQLite::Exception&) {
    rethrow_as_store_error(into);
  }
  return result;
}

}  // namespace lockstep::dashboard
