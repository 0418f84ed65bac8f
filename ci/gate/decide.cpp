// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/judge.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <nlohmann/json.hpp>

#include "ci/gate/rules.h"
#include "dashboard/store/hash.h"
#include "dashboard/store/sql.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"

namespace lockstep::gate {
namespace {

using dashboard::Store;
namespace sql = dashboard::sql;

dashboard::Key key_of(const Judgement& j) {
  dashboard::Hasher hash;
  hash.add(j.judged_ms)
      .add(j.baseline)
      .add(j.candidate)
      .add(j.commit)
      .add(j.build_hash)
      .add(to_json(j.policy));
  for (const Finding& f : j.findings)
    hash.add(f.rule).add(f.subject).add(name(f.effect)).add(f.expected).add(f.got).add(f.detail);
  return hash.key();
}

std::string codes_of(const Judgement& j) {
  nlohmann::json codes = j.codes;
  if (j.codes.empty()) codes.push_back(0);
  return codes.dump();
}

void insert_children(SQLite::Database& db, int64_t id, const Judgement& j) {
  SQLite::Statement finding(db, "INSERT INTO finding VALUES (?,?,?,?,?,?,?,?,?,?)");
  int64_t seq = 0;
  for (const Finding& f : j.findings)
    sql::run(finding, id, seq++, f.rule, f.subject, name(f.effect), f.code, f.expected, f.got, f.detail,
             f.replay);
  SQLite::Statement muted(db, "INSERT OR REPLACE INTO muted VALUES (?,?,?,?,?)");
  for (const Mute& m : j.policy.mutes) sql::run(muted, id, m.bucket, m.owner, m.reason, m.expires);
  SQLite::Statement series(db, "INSERT INTO series_verdict VALUES (?,?,?,?,?,?,?,?,?,?,?,?)");
  for (const SeriesVerdict& s : j.series)
    sql::run(series, id, s.series, s.kind, s.against, s.verdict, s.samples, s.ratio, s.low, s.high, s.p,
             s.detectable, s.false_alarms);
}

// The findings of the newest judgement that a blessing could mean.
std::vector<Blessing> candidates(SQLite::Database& db, const std::string& rule, const std::string& subject) {
  SQLite::Statement row(db, R"(SELECT rule, subject, got FROM v_findings WHERE effect <> 'note' AND rule = ?1
      AND (subject = ?2 OR ?2 = '')
      AND judgement = (SELECT judgement FROM v_judgements ORDER BY time DESC, judgement DESC LIMIT 1))");
  sql::bind(row, rule, subject);
  std::vector<Blessing> found;
  while (row.executeStep())
    found.push_back(
        {row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(), "", ""});
  return found;
}

std::string blessable_rules() {
  std::string list;
  for (const Rule& r : rules())
    if (r.blessable) list += (list.empty() ? "" : ", ") + std::string(r.name);
  return list;
}

}  // namespace

int64_t record(const Judgement& j, int exit_code) {
  Store store = Store::open_writer(j.candidate);
  SQLite::Database& db = store.database();
  try {
    SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement insert(
        db, R"(INSERT INTO judgement (key, judged_ms, baseline, candidate, commit_id, build_hash,
        policy, exit_code, codes) VALUES (?,?,?,?,?,?,?,?,?))");
    sql::run(insert, key_of(j), j.judged_ms, j.baseline, j.candidate, j.commit, j.build_hash,
             to_json(j.policy), exit_code, codes_of(j));
    const int64_t id = db.getLastInsertRowid();
    insert_children(db, id, j);
    transaction.commit();
    return id;
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(j.candidate);
  }
}

Blessing bless(const std::string& path, const std::string& rule, const std::string& subject,
               const std::string& reason, const std::string& by) {
  const Rule* known = find_rule(rule);
  LOCKSTEP_CHECK(known != nullptr && known->blessable, "[bless] findings of rule '", rule,
                 "' cannot be blessed; those of these can: ", blessable_rules(),
                 ". A failure is mended, or muted in the policy with owner, reason and day");
  LOCKSTEP_CHECK(!reason.empty() && !by.empty(), "[bless] give --reason and --by: why, and who says so");
  Store store = Store::open_writer(path);
  try {
    auto found = candidates(store.database(), rule, subject);
    LOCKSTEP_CHECK(!found.empty(), "[bless] the newest judgement in ", path, " has no finding ", rule,
                   " on '", subject, "'; `lockstep gate` prints the findings");
    LOCKSTEP_CHECK(found.size() == 1, "[bless] ", found.size(), " findings are of rule ", rule,
                   "; name one with --subject, for example '", found[0].subject, "'");
    Blessing blessing = found[0];
    blessing.reason = reason;
    blessing.by = by;
    SQLite::Statement insert(store.database(), "INSERT OR REPLACE INTO blessing VALUES (?,?,?,?,?,?)");
    sql::run(insert, blessing.rule, blessing.subject, blessing.got, reason, by, dashboard::now_ms());
    return blessing;
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(path);
  }
}

}  // namespace lockstep::gate
