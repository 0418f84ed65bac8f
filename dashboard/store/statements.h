// SPDX-License-Identifier: Apache-2.0
// The recorder's statements, prepared once. Where a table keeps one row of several, the rule for which stays
// is here and, in the same words, in merge.cpp.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include "dashboard/store/join_rules.h"

namespace lockstep::dashboard {

struct Statements {
  explicit Statements(SQLite::Database& database) : db(database) {}

  SQLite::Database& db;
  SQLite::Statement begin{db, "BEGIN IMMEDIATE"}, commit{db, "COMMIT"}, rollback{db, "ROLLBACK"};

  SQLite::Statement find_case{db, "SELECT id FROM cases WHERE key = ? AND run = ? AND outcome = ?"};
  SQLite::Statement touch_case{db, "UPDATE cases SET time_ns = min(time_ns, ?) WHERE id = ?"};
  SQLite::Statement insert_case{
      db, R"(INSERT INTO cases (run, key, outcome, number, suite, law, variant, self_check,
      token, ops, mesh, verdict, op, placement, mesh_rank, evenness, dtype, how, time_ns, bytes_moved,
      bucket, explanation)
      VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?))"};
  SQLite::Statement count_outcomes{db, "SELECT count(*) FROM cases WHERE key = ? AND run = ?"};
  SQLite::Statement numbers{db,
                            "SELECT DISTINCT number FROM cases WHERE run = ? AND suite = ? ORDER BY number"};
  SQLite::Statement insert_diff{db, "INSERT INTO tensor_diff VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"};

  SQLite::Statement count_coverage{db, R"(INSERT INTO coverage VALUES (?,?,?,?,?,?,?,1)
      ON CONFLICT DO UPDATE SET hits = hits + 1)"};
  SQLite::Statement count_label{
      db, "INSERT INTO label VALUES (?,?,?,1) ON CONFLICT DO UPDATE SET hits = hits + 1"};
  SQLite::Statement count_refusal{
      db, "INSERT INTO refusal VALUES (?,?,?,?,?,1) ON CONFLICT DO UPDATE SET hits = hits + 1"};
  SQLite::Statement count_forgiven{db, R"(INSERT INTO forgiven VALUES (?,?,?,?,?,?)
      ON CONFLICT DO UPDATE SET hits = hits + excluded.hits)"};
  SQLite::Statement count_exception{db, R"(INSERT INTO expected_exception VALUES (?,?,?,?,?,?)
      ON CONFLICT DO UPDATE SET hits = hits + excluded.hits)"};
  SQLite::Statement expect_op{db, "INSERT OR IGNORE INTO expected_op VALUES (?,?)"};

  SQLite::Statement put_failure{
      db, std::string(R"(INSERT INTO failure (run, bucket, ops, token, suite, law, verdict,
      program, shrink_steps, budget_ended) VALUES (?,?,?,?,?,?,?,?,?,?) )") +
              kJoinFailure};
  SQLite::Statement put_fault{
      db, std::string(R"(INSERT INTO planted_fault (run, name, klass, found, cases, shrunk_ops,
      suite, token, note) VALUES (?,?,?,?,?,?,?,?,?) )") +
              kJoinFault};
  SQLite::Statement put_gate{
      db, "INSERT OR REPLACE INTO gate (run, rule, passed, required, got) VALUES (?,?,?,?,?)"};

  SQLite::Statement next_sample{db, R"(SELECT coalesce(max(seq) + 1, 0) FROM measurement
      WHERE run = ? AND worker = ? AND series = ? AND arm = ?)"};
  SQLite::Statement insert_sample{db, "INSERT INTO measurement VALUES (?,?,?,?,?,?,?,?)"};

  SQLite::Statement insert_curve{
      db, R"(INSERT OR IGNORE INTO curve (run, name, model, variant, mesh, policy, lane, dtype,
      reference, digits, fields) VALUES (?,?,?,?,?,?,?,?,?,?,?))"};
  SQLite::Statement find_curve{
      db, R"(SELECT id FROM curve WHERE run = ? AND name = ? AND model = ? AND variant = ?
      AND mesh = ? AND policy = ? AND lane = ? AND dtype = ? AND reference = ?)"};
  SQLite::Statement insert_point{
      db, std::string("INSERT INTO curve_point VALUES (?,?,?,?,?,?,?,?,?,?) ") + kJoinPoint};

  SQLite::Statement put_series{db, "INSERT OR IGNORE INTO series VALUES (?,?,?,?,?,?)"};
  SQLite::Statement put_replayed{db, "INSERT OR IGNORE INTO replayed VALUES (?,?,?,?,?)"};
  SQLite::Statement put_divergence{db, "INSERT OR REPLACE INTO divergence VALUES (?,?,?,?,?,?,?,?,?,?,?)"};
  SQLite::Statement put_fact{db, "INSERT OR IGNORE INTO fact VALUES (?,?,?)"};
  SQLite::Statement keep_case{db, std::string("INSERT INTO corpus VALUES (?,?,?,?,?,?) ") + kJoinKept};

  SQLite::Statement finish{db, "UPDATE run SET ended_ms = ?, state = ?, exit_code = ? WHERE id = ?"};
};

}  // namespace lockstep::dashboard
