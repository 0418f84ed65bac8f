// SPDX-License-Identifier: Apache-2.0
#include "ci/gate/judge.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>

#include "ci/gate/rules.h"
#include "dashboard/store/sql.h"

namespace lockstep::gate {
namespace {

std::vector<Finding> findings_of(const Rule& rule, Effect effect, SQLite::Database& db) {
  std::vector<Finding> findings;
  SQLite::Statement row(db, rule.query);
  while (row.executeStep()) {
    const auto text = [&](int i) { return i < row.getColumnCount() ? row.getColumn(i).getString() : ""; };
    findings.push_back({rule.name, text(0), effect, rule.code, text(1), text(2), text(3), text(4)});
  }
  return findings;
}

constexpr const char* kMuted =
    "SELECT 'muted until ' || expires || ' by ' || owner || ': ' || reason FROM mute "
    "WHERE in_force AND bucket = ?1";
constexpr const char* kBlessed =
    "SELECT 'blessed by ' || blessed_by || ': ' || reason FROM (SELECT * FROM main.blessing UNION ALL "
    "SELECT * FROM base.blessing) WHERE rule = ?1 AND subject = ?2 AND got = ?3";

std::optional<std::string> first_text(SQLite::Statement& row) {
  if (!row.executeStep()) return std::nullopt;
  return row.getColumn(0).getString();
}

// The sentence that excuses the finding: a mute excuses failures (a broken harness is none), a blessing
// changes.
std::optional<std::string> excuse(const Finding& f, const Rule& rule, SQLite::Database& db) {
  if (rule.blessable) {
    SQLite::Statement blessed(db, kBlessed);
    return first_text(dashboard::sql::bind(blessed, f.rule, f.subject, f.got));
  }
  if (rule.code != 1 && rule.code != 6) return std::nullopt;
  SQLite::Statement muted(db, kMuted);
  return first_text(dashboard::sql::bind(muted, f.subject));
}

void excuse_all(Judgement& judgement, SQLite::Database& db) {
  for (Finding& f : judgement.findings) {
    const auto reason = excuse(f, *find_rule(f.rule), db);
    if (!reason) continue;
    f.effect = Effect::kNote;
    f.detail += "; " + *reason;
  }
}

std::vector<SeriesVerdict> series_of(SQLite::Database& db) {
  SQLite::Statement row(db,
                        R"(SELECT series, kind, against, verdict, samples, ratio, low, high, p, detectable,
      false_alarms FROM speed ORDER BY series)");
  const auto number = [&](int i) {
    const auto column = row.getColumn(i);
    return column.isNull() ? std::nullopt : std::optional(column.getDouble());
  };
  std::vector<SeriesVerdict> all;
  while (row.executeStep())
    all.push_back({row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                   row.getColumn(3).getString(), row.getColumn(4).getInt64(), number(5), number(6), number(7),
                   number(8), number(9), number(10)});
  return all;
}

void describe_candidate(Judgement& judgement, SQLite::Database& db) {
  SQLite::Statement row(db, "SELECT commit_id, build_hash FROM c_run ORDER BY started_ms DESC LIMIT 1");
  if (!row.executeStep()) return;
  judgement.commit = row.getColumn(0).getString();
  judgement.build_hash = row.getColumn(1).getString();
}

}  // namespace

Judgement judge(const std::string& baseline, const std::string& candidate, const Policy& policy,
                const Claims& claims, const std::string& today) {
  const Sides sides(baseline, candidate, policy, claims, today);
  SQLite::Database& db = sides.database();
  Judgement judgement;
  judgement.baseline = baseline;
  judgement.candidate = candidate;
  judgement.policy = policy;
  judgement.judged_ms = dashboard::now_ms();
  try {
    describe_candidate(judgement, db);
    for (const Rule& rule : rules()) {
      const Effect effect = effect_of(rule, policy);
      if (effect == Effect::kOff) continue;
      for (Finding& f : findings_of(rule, effect, db)) judgement.findings.push_back(std::move(f));
    }
    judgement.series = series_of(db);
    excuse_all(judgement, db);
  } catch (const SQLite::Exception&) {
    dashboard::rethrow_as_store_error(candidate);
  }
  std::stable_sort(judgement.findings.begin(), judgement.findings.end(),
                   [](const Finding& a, const Finding& b) { return a.effect < b.effect; });
  for (const Finding& f : judgement.findings)
    if (f.effect == Effect::kBlock) judgement.codes.insert(f.code);
  return judgement;
}

}  // namespace lockstep::gate
