// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/sides.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <ctime>
#include <fstream>
#include <iterator>

#include "ci/gate/chance.h"
#include "dashboard/store/run_row.h"
#include "dashboard/store/sql.h"
#include "engine/values/error.h"

namespace lockstep::gate {
namespace {

using dashboard::Store;

std::string text_of(sqlite3_value* value) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return text == nullptr ? "" : std::string(text, static_cast<size_t>(sqlite3_value_bytes(value)));
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

// chance_of_more(hits, of, the baseline's hits, of)
void chance(sqlite3_context* context, int, sqlite3_value** v) {
  const auto at = [&](int i) { return sqlite3_value_int64(v[i]); };
  sqlite3_result_double(context, chance_of_more({at(0), at(1)}, {at(2), at(3)}));
}

std::string cut(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80)
    --most;  // not within a character
  return text.substr(0, most) + "…";
}

// A function of one text.
template <std::string (*function)(const std::string&)>
void of_text(sqlite3_context* context, int, sqlite3_value** v) {
  const std::string text = function(text_of(v[0]));
  sqlite3_result_text(context, text.data(), static_cast<int>(text.size()), SQLITE_TRANSIENT);
}

std::string first_line(const std::string& text) {
  return cut(text.substr(0, text.find('\n')), 300);
}

std::string shortened(const std::string& text) {
  return cut(text, 120);
}

void add_functions(SQLite::Database& db) {
  db.createFunction("case_key", 9, true, nullptr, case_key, nullptr, nullptr, nullptr);
  db.createFunction("chance_of_more", 4, true, nullptr, chance, nullptr, nullptr, nullptr);
  db.createFunction("first_line", 1, true, nullptr, of_text<first_line>, nullptr, nullptr, nullptr);
  db.createFunction("shortened", 1, true, nullptr, of_text<shortened>, nullptr, nullptr, nullptr);
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
  const auto table = [&](const char* name, const std::string& columns, const std::string& from,
                         const std::string& group = "") {
    db.exec("CREATE TEMP TABLE " + side + name + " AS SELECT " + columns + " FROM " + from +
            (group.empty() ? "" : " GROUP BY " + group));
  };
  const std::string runs = " IN (SELECT id FROM " + side + "run)";
  const auto view = [&](const char* name) { return schema + "." + name + " WHERE run_id" + runs; };
  table("verdicts",
        "suite, self_check, verdict, severity, failure, sum(cases) AS cases, sum(bytes_moved) AS "
        "bytes_moved",
        view("v_verdicts"), "suite, self_check, verdict");
  table("measured", "suite, sum(iif(verdict IN ('gave_up', 'broken'), 0, cases)) AS cases", side + "verdicts",
        "suite");
  table(
      "failures", "*, cases || iif(cases = 1, ' case', ' cases') AS counted, first_line(explanation) AS line",
      "(SELECT bucket, suite, verdict, op, placement, mesh, dtype, token, explanation, replay, sum(cases) AS "
      "cases, min(length(token)) FROM " +
          view("v_failures") + " GROUP BY bucket)");
  table("coverage", "op, placement, sum(hits) AS hits", schema + ".coverage WHERE run" + runs,
        "op, placement");
  table("explained",
        "suite, op, placement, sum(iif(verdict LIKE 'explained%' OR verdict = 'bounded', hits, 0)) AS hits, "
        "sum(hits) AS n",
        schema + ".rate WHERE run" + runs, "suite, op, placement");
  table("labels", "label, sum(hits) AS hits", schema + ".label WHERE run" + runs, "label");
  table("refusals", "suite, op, reason, sum(hits) AS hits", view("v_refusals"), "suite, op, reason");
  for (const auto& [name, of] : {std::pair{"curves", "v_curve_diff"},
                                 {"points", "v_curves"},
                                 {"series", "v_series"},
                                 {"faults", "v_faults"},
                                 {"plan", "v_plan"},
                                 {"gates", "v_gates"},
                                 {"replayed", "v_replayed"},
                                 {"environment", "v_environment"}})
    table(name, "*", view(of));
}

// What compares the two sides; the key of a case is computed with the baseline's build.
void relate(SQLite::Database& db) {
  db.exec(R"(
    CREATE TEMP TABLE b_buckets AS SELECT * FROM base.v_buckets WHERE engine IN (SELECT engine FROM c_run);
    CREATE TEMP TABLE fresh AS SELECT f.*, k.state, k.last_commit, k.clean_commits
      FROM c_failures f LEFT JOIN b_buckets k ON k.bucket = f.bucket
      WHERE f.bucket NOT IN (SELECT bucket FROM b_failures);
    CREATE TEMP TABLE often AS SELECT value AS least,
      min(1.0, (SELECT coalesce(sum(cases), 0) FROM c_measured) * 1.0
               / max(1, (SELECT sum(cases) FROM b_measured))) AS share
      FROM number WHERE name = 'expected_hits';
    CREATE TEMP VIEW keyed AS
      SELECT c.suite, c.op, c.verdict, c.severity, c.failure, c.bucket, c.token, c.explanation, c.replay,
             c.bytes_moved, b_run.id AS b_run,
             case_key(b_run.build_hash, b_run.engine, b_run.version, b_run.numerics, b_run.seed, c.suite,
                      c.law, c.variant, c.token) AS b_key
      FROM main.v_cases c JOIN c_run ON c_run.id = c.run_id
      JOIN b_run ON b_run.seed = c_run.seed AND b_run.numerics = c_run.numerics
        AND b_run.engine = c_run.engine
      WHERE NOT c.self_check;
    CREATE TEMP TABLE asked AS SELECT * FROM keyed WHERE verdict <> 'equal';
    CREATE TEMP TABLE moved AS
      SELECT suite, count(*) AS cases, sum(bytes_moved) AS bytes_moved,
             sum(EXISTS (SELECT 1 FROM base.cases b WHERE b.run = b_run AND b.key = b_key)
                 OR EXISTS (SELECT 1 FROM base.settled b WHERE b.run = b_run AND b.key = substr(b_key, 1, 8)))
               AS known
      FROM keyed GROUP BY suite;
    CREATE TEMP TABLE same_case AS
      SELECT a.*, b.verdict AS before, bv.severity AS severity_before
      FROM asked a JOIN (
        SELECT a.rowid AS asked, b.verdict FROM asked a
        JOIN base.cases b ON b.run = a.b_run AND b.key = a.b_key
        UNION SELECT a.rowid, b.verdict FROM asked a
              JOIN base.settled b ON b.run = a.b_run AND b.key = substr(a.b_key, 1, 8)) b ON b.asked = a.rowid
      JOIN main.verdict bv ON bv.name = b.verdict)");
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
    SQLite::Statement attach(db, "ATTACH ? AS base");
    dashboard::sql::run(attach, baseline_.path());
    choose_runs(db);
    state_policy(db, policy, claims, today);
    remember(db, "main", "c_");
    remember(db, "base", "b_");
    relate(db);
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
