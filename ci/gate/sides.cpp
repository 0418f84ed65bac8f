// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/sides.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "ci/gate/queries.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/sql.h"
#include "engine/values/error.h"
#include "engine/values/shell.h"

namespace lockstep::gate {
namespace {

using dashboard::Store;

std::string text_of(sqlite3_value* value) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return text == nullptr ? "" : std::string(text, static_cast<size_t>(sqlite3_value_bytes(value)));
}

void answer(sqlite3_context* context, const std::string& text) {
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

// case_key(build, engine, version, numerics, seed, suite, law, variant, token)
void case_key(sqlite3_context* context, int, sqlite3_value** v) {
  dashboard::Run run;
  run.build_hash = text_of(v[0]);
  run.engine = text_of(v[1]);
  run.version = text_of(v[2]);
  run.numerics = text_of(v[3]);
  run.seed = static_cast<uint64_t>(sqlite3_value_int64(v[4]));
  const auto key = dashboard::case_key(run, text_of(v[5]), text_of(v[6]), text_of(v[7]), text_of(v[8]));
  sqlite3_result_blob(context, key.data(), static_cast<int>(key.size()), SQLITE_TRANSIENT);
}

std::string cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most;  // not within a character
  return text.substr(0, most) + "…";
}

void first_line(sqlite3_context* context, int, sqlite3_value** v) {
  const std::string text = text_of(v[0]);
  answer(context, cut(text.substr(0, text.find('\n')), 300));
}

void shortened(sqlite3_context* context, int, sqlite3_value** v) {
  answer(context, cut(text_of(v[0]), 120));
}

void shell_quoted(sqlite3_context* context, int, sqlite3_value** v) {
  answer(context, lockstep::shell_quoted(text_of(v[0])));
}

void add_functions(SQLite::Database& db) {
  db.createFunction("case_key", 9, true, nullptr, case_key, nullptr, nullptr, nullptr);
  db.createFunction("first_line", 1, true, nullptr, first_line, nullptr, nullptr, nullptr);
  db.createFunction("shortened", 1, true, nullptr, shortened, nullptr, nullptr, nullptr);
  db.createFunction("shell_quoted", 1, true, nullptr, shell_quoted, nullptr, nullptr, nullptr);
}

void attach(SQLite::Database& db, const std::string& path) {
  SQLite::Statement attach(db, "ATTACH ? AS base");
  attach.bind(1, path);
  attach.exec();
}

// The runs of a side: those of the commit whose runs began last; of the baseline, of the candidate's engine.
void choose_runs(SQLite::Database& db) {
  db.exec(R"(
    CREATE TEMP TABLE c_run AS SELECT * FROM main.run WHERE commit_id =
      (SELECT commit_id FROM main.run ORDER BY started_ms DESC, name DESC, key DESC LIMIT 1);
    CREATE TEMP TABLE b_all AS SELECT * FROM base.run
      WHERE key NOT IN (SELECT key FROM c_run)
        AND (engine IN (SELECT engine FROM c_run) OR NOT EXISTS (SELECT 1 FROM c_run));
    CREATE TEMP TABLE b_run AS SELECT * FROM b_all WHERE commit_id =
      (SELECT commit_id FROM b_all ORDER BY started_ms DESC, name DESC, key DESC LIMIT 1))");
}

// Everything of one side that several rules read, computed once.
void remember(SQLite::Database& db, const std::string& schema, const std::string& side) {
  const auto table = [&](const std::string& name, const std::string& query) {
    db.exec("CREATE TEMP TABLE " + side + name + " AS " + query);
  };
  const std::string of_side = " WHERE run_id IN (SELECT id FROM " + side + "run)";
  const std::string child = " WHERE run IN (SELECT id FROM " + side + "run)";
  table("verdicts", "SELECT suite, self_check, verdict, severity, failure, sum(cases) AS cases FROM " +
                        schema + ".v_verdicts" + of_side + " GROUP BY suite, self_check, verdict");
  table("measured", "SELECT suite, sum(iif(verdict IN ('gave_up', 'broken'), 0, cases)) AS cases FROM " +
                        side + "verdicts GROUP BY suite");
  table("failures",
        "SELECT bucket, suite, verdict, op, placement, mesh, dtype, token, explanation, replay, sum(cases) "
        "AS cases, "
        "min(length(token)) FROM " +
            schema + ".v_failures" + of_side + " GROUP BY bucket");
  table("coverage", "SELECT op, placement, sum(hits) AS hits FROM " + schema + ".coverage" + child +
                        " GROUP BY op, placement");
  table("refusals", "SELECT suite, op, reason, sum(hits) AS hits FROM " + schema + ".v_refusals" + of_side +
                        " GROUP BY suite, op, reason");
  table("labels", "SELECT label, sum(hits) AS hits FROM " + schema + ".label" + child + " GROUP BY label");
  table("curves", "SELECT * FROM " + schema + ".v_curve_diff" + of_side);
  table("points", "SELECT * FROM " + schema + ".v_curves" + of_side);
  table("series", "SELECT * FROM " + schema + ".v_series" + of_side);
}

// What compares the two sides case by case; the key of a case is computed with the baseline's build.
void relate(SQLite::Database& db) {
  db.exec(R"(
    CREATE TEMP TABLE share AS SELECT min(1.0, (SELECT coalesce(sum(cases), 0) FROM c_measured) * 1.0
                                               / max(1, (SELECT sum(cases) FROM b_measured))) AS value;
    CREATE TEMP TABLE same_case AS
      SELECT c.suite, c.op, c.verdict, cv.severity, cv.failure, c.bucket, c.token, c.explanation,
             b.verdict AS before, bv.severity AS severity_before
      FROM main.cases c JOIN c_run ON c_run.id = c.run JOIN main.verdict cv ON cv.name = c.verdict
      JOIN b_run ON b_run.seed = c_run.seed AND b_run.numerics = c_run.numerics
        AND b_run.engine = c_run.engine
      JOIN base.cases b ON b.run = b_run.id
        AND b.key = case_key(b_run.build_hash, b_run.engine, b_run.version, b_run.numerics, b_run.seed,
                             c.suite, c.law, c.variant, c.token)
      JOIN main.verdict bv ON bv.name = b.verdict
      WHERE c.verdict <> 'equal' AND NOT c.self_check)");
}

void state_policy(SQLite::Database& db, const Policy& policy, const Claims& claims,
                  const std::string& today) {
  db.exec(R"(CREATE TEMP TABLE number (name, value); CREATE TEMP TABLE demand (kind, name, least);
    CREATE TEMP TABLE mute (bucket, owner, reason, expires, in_force); CREATE TEMP TABLE claim (name,
        value))");
  const auto insert = [&](const char* query, const auto&... values) {
    SQLite::Statement statement(db, query);
    dashboard::sql::run(statement, values...);
  };
  for (const auto& [name, value] : policy.numbers) insert("INSERT INTO number VALUES (?, ?)", name, value);
  for (const Demand& d : policy.demands)
    insert("INSERT INTO demand VALUES (?, ?, ?)", d.kind, d.name, d.least);
  for (const Mute& m : policy.mutes)
    insert("INSERT INTO mute VALUES (?, ?, ?, ?, ?)", m.bucket, m.owner, m.reason, m.expires,
           m.expires >= today);
  if (!claims.commit.empty()) insert("INSERT INTO claim VALUES ('commit', ?)", claims.commit);
  if (!claims.build.empty()) insert("INSERT INTO claim VALUES ('build', ?)", claims.build);
}

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  LOCKSTEP_CHECK(in, "[gate] cannot read --speed ", path, "; `ci/speed DB -o FILE` writes such a file");
  return {std::istreambuf_iterator<char>(in), {}};
}

// The answer to a query of one text parameter; its first column.
std::string first_text(SQLite::Database& db, const char* query, const std::string& text) {
  SQLite::Statement row(db, query);
  dashboard::sql::bind(row, text);
  return row.executeStep() ? row.getColumn(0).getString() : "";
}

void judge_series(SQLite::Database& db, const std::string& file) {
  db.exec(kJudgeCounted);
  if (!file.empty()) {
    const std::string text = text_of_file(file);
    LOCKSTEP_CHECK(first_text(db, "SELECT iif(json_valid(?1), json_extract(?1, '$.schema'), '')", text) ==
                       "lockstep-speed/1",
                   "[gate] ", file, " holds no verdicts; `ci/speed DB -o FILE` writes such a file");
    const std::string other = first_text(db, kOtherNumbers, text);
    LOCKSTEP_CHECK(other.empty(), "[gate] ", file, " was judged with another ", other,
                   " than the policy has: give ci/speed the same --policy");
    SQLite::Statement insert(db, kReadTimed);
    dashboard::sql::run(insert, text);
  }
  db.exec(kTimedWithoutVerdict);
}

}  // namespace

Sides::Sides(const std::string& baseline, const std::string& candidate, const Policy& policy,
             const Claims& claims, const std::string& today)
    : candidate_(Store::open_reader(candidate)), baseline_(Store::open_reader(baseline)) {
  try {
    SQLite::Database& db = database();
    add_functions(db);
    attach(db, baseline_.path());
    choose_runs(db);
    remember(db, "main", "c_");
    remember(db, "base", "b_");
    relate(db);
    db.exec(
        "CREATE TEMP TABLE b_buckets AS SELECT * FROM base.v_buckets WHERE engine IN (SELECT engine FROM "
        "c_run)");
    state_policy(db, policy, claims, today);
    judge_series(db, claims.speed);
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(candidate);
  }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

}  // namespace lockstep::gate
