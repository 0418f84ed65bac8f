// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/merge.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <vector>

#include "dashboard/store/join_rules.h"

namespace lockstep::dashboard {

namespace {

// Row numbers of the shard, and of the same run in the target.
constexpr const char* kRunMap = R"(CREATE TEMP TABLE run_map AS
  SELECT theirs.id AS from_id, ours.id AS to_id
  FROM shard.run theirs JOIN main.run ours ON ours.key = theirs.key)";
constexpr const char* kCurveMap = R"(CREATE TEMP TABLE curve_map AS
  SELECT c.id AS from_id, o.id AS to_id FROM shard.curve c JOIN run_map m ON m.from_id = c.run
  JOIN main.curve o ON (o.run, o.name, o.model, o.variant, o.mesh, o.policy, o.lane, o.dtype, o.reference)
                     = (m.to_id, c.name, c.model, c.variant, c.mesh, c.policy, c.lane, c.dtype,
                        c.reference))";

constexpr const char* kRunColumns =
    "key, name, command, seed, numerics, plan, build_hash, commit_id, cpu, cores, compiler, libtorch, "
    "started_ms, ended_ms, state, exit_code, engine, version";
constexpr const char* kCaseColumns =
    "key, outcome, number, suite, law, variant, self_check, token, ops, mesh, verdict, op, placement, "
    "mesh_rank, evenness, "
    "dtype, how, time_ns, bytes_moved, bucket, explanation";

// A table whose rows belong to a run: its columns but the first, and which row stays.
struct Child {
  const char* table;
  const char* columns;
  const char* rule;
};
constexpr const char* kMaximum = "ON CONFLICT DO UPDATE SET hits = max(hits, excluded.hits)";
constexpr const char* kKeep = "ON CONFLICT DO NOTHING";
constexpr Child kChildren[] = {
    {"plan_item", "kind, name, least", kKeep},
    {"cases", kCaseColumns, kJoinCase},
    {"coverage", "worker, op, placement, mesh_rank, evenness, verdict, hits", kMaximum},
    {"label", "worker, label, hits", kMaximum},
    {"expected_exception", "worker, op, dtype, reason, hits", kMaximum},
    {"refusal", "worker, suite, op, reason, hits", kMaximum},
    {"forgiven", "worker, kind, op, reason, hits", kMaximum},
    {"expected_op", "op", kKeep},
    {"failure", "bucket, ops, token, suite, law, verdict, program, shrink_steps, budget_ended", kJoinFailure},
    {"curve", "name, model, variant, mesh, policy, lane, dtype, reference, digits, fields", kKeep},
    {"planted_fault", "name, klass, found, cases, shrunk_ops, suite, token, note", kJoinFault},
    {"series", "name, area, kind, better, unit", kKeep},
    {"replayed", "token, bucket, verdict, now", kKeep},
    {"pruned", "suite, self_check, verdict, cases, time_ns, bytes_moved", kKeep},
    {"fact", "name, value", kKeep},
    {"divergence", "curve, reference, compared, step, position, op, rank, what, expected, got", kKeep},
    {"measurement", "worker, series, arm, seq, unit, value_bits, value",
     "ON CONFLICT DO UPDATE SET unit = excluded.unit, value_bits = excluded.value_bits, value = "
     "excluded.value "
     "WHERE (excluded.value_bits, excluded.unit) < (value_bits, unit)"},
    {"gate", "rule, passed, required, got", kJoinGate},
};

// `WHERE true` tells the parser that ON CONFLICT belongs to the insert and not to a join.
void join_tables(SQLite::Database& db) {
  const std::string run = kRunColumns;
  db.exec("INSERT INTO main.run (" + run + ") SELECT " + run + " FROM shard.run WHERE true " + kJoinRun);
  db.exec(kRunMap);
  for (const Child& child : kChildren) {
    const std::string table = child.table, columns = child.columns;
    db.exec("INSERT INTO main." + table + " (run, " + columns + ") SELECT m.to_id, " + columns +
            " FROM shard." + table + " JOIN run_map m ON m.from_id = run WHERE true " + child.rule);
  }
  db.exec(kCurveMap);
  db.exec(std::string(
              R"(INSERT INTO main.curve_point SELECT m.to_id, step, loss_bits, grad_norm_bits, chain, loss,
      grad_norm, tokens_per_second, peak_bytes, verdict
      FROM shard.curve_point JOIN curve_map m ON m.from_id = curve WHERE true )") +
          kJoinPoint);
  db.exec(
      R"(INSERT OR IGNORE INTO main.tensor_diff SELECT ours.id, seq, value, bit_class, d.dtype,
      elements, different, max_ulp, max_abs_bits, first_index, rank, local_index, expected_bits, actual_bits,
      float64_bits, bound_bits, explained_by
      FROM shard.tensor_diff d JOIN shard.cases c ON c.id = d.case_id JOIN run_map m ON m.from_id = c.run
      JOIN main.cases ours ON ours.key = c.key AND ours.run = m.to_id AND ours.outcome = c.outcome)");
  db.exec("DROP TABLE run_map; DROP TABLE curve_map");
}

// What belongs to no run: kept cases, blessings, and the gate's judgements with their findings.
void join_decisions(SQLite::Database& db) {
  db.exec(std::string("INSERT INTO main.corpus SELECT * FROM shard.corpus WHERE true ") + kJoinKept);
  db.exec(std::string("INSERT INTO main.blessing SELECT * FROM shard.blessing WHERE true ") + kJoinBlessing);
  const std::string columns =
      "key, judged_ms, baseline, candidate, commit_id, build_hash, policy, exit_code, codes";
  db.exec("INSERT OR IGNORE INTO main.judgement (" + columns + ") SELECT " + columns +
          " FROM shard.judgement");
  for (const std::string table : {"finding", "muted", "series_verdict"}) {
    SQLite::Statement names(db, "SELECT group_concat('t.' || name) FROM pragma_table_info(?) WHERE cid > 0");
    names.bind(1, table);
    names.executeStep();
    db.exec("INSERT OR IGNORE INTO main." + table + " SELECT ours.id, " + names.getColumn(0).getString() +
            " FROM shard." + table + " t JOIN shard.judgement j ON j.id = t.judgement" +
            " JOIN main.judgement ours ON ours.key = j.key");
  }
}

[[noreturn]] void fail_half_pruned(const std::string& path, const std::string& run) {
  throw StoreError(StoreError::Kind::kForeign,
                   "[merge] " + path + ": run " + run +
                       " was pruned in one of the two files and not, or otherwise, "
                       "in the other; merge first, then prune");
}

// A pruned run has counts in place of cases; joined with its own unpruned copy it would count them twice.
void refuse_half_pruned(SQLite::Database& db, const std::string& path) {
  SQLite::Statement row(db, R"(
      WITH counts AS (
        SELECT ours.id AS run, ours.name,
               (SELECT coalesce(sum(cases), 0) FROM main.pruned WHERE run = ours.id) AS here,
               (SELECT coalesce(sum(cases), 0) FROM shard.pruned WHERE run = theirs.id) AS there
        FROM shard.run theirs JOIN main.run ours ON ours.key = theirs.key)
      SELECT name FROM counts WHERE here <> there LIMIT 1)");
  if (row.executeStep()) fail_half_pruned(path, row.getColumn(0).getString());
}

// Key of a run -> how many of its cases are only counted.
using Pruned = std::map<std::string, int64_t>;

// The same between any two of several files, before one of them is joined.
void refuse_half_pruned(const Store& store, const std::string& path, Pruned& known) {
  SQLite::Statement row(store.database(), R"(
      SELECT hex(key), name, (SELECT coalesce(sum(cases), 0) FROM pruned WHERE run = run.id) FROM run)");
  while (row.executeStep()) {
    const int64_t cases = row.getColumn(2).getInt64();
    if (known.try_emplace(row.getColumn(0).getString(), cases).first->second != cases)
      fail_half_pruned(path, row.getColumn(1).getString());
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
  refuse_half_pruned(db, path);
  join_tables(db);
  join_decisions(db);
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
  SQLite::Database& db = into.database();
  for (const std::string& path : shards) {
    std::error_code error;
    if (std::filesystem::equivalent(path, into.path(), error))
      continue;  // joined with itself, nothing changes
    const Store shard = Store::open_reader(path);
    try {
      merge_one(db, shard.path(), result);
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
