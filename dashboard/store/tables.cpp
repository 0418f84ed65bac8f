// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/tables.h"

#include <map>

namespace lockstep::dashboard {

namespace {

// An order such as "$ops, length($token)": the smaller row stays. Or one of these.
constexpr const char* kLargest = "hits";    // counts of a worker, which only grow
constexpr const char* kSmallest = "least";  // of each column the smaller value

// Tables that are not here: rows with one key are the same.
const std::map<std::string, std::string> kRules = {
    {"coverage", kLargest},
    {"rate", kLargest},
    {"label", kLargest},
    {"expected_exception", kLargest},
    {"refusal", kLargest},
    {"forgiven", kLargest},
    {"cases", kSmallest},  // the same case with the same outcome
    // The smallest minimal case: fewest ops, then the shortest token, then the rest to break ties.
    {"failure",
     "$ops, length($token), $token, $suite, $law, $verdict, $program, $shrink_steps, $budget_ended"},
    // Found before not found, then by the fewest cases.
    {"planted_fault", "-$found, $cases, $shrunk_ops, $suite, $token, $note, $klass"},
    {"measurement", "$value_bits, $unit"},
    {"gate", "$passed, $required, $got"},                      // the failed one stays
    {"corpus", "$since_ms, $bucket, $origin, $suite, $note"},  // the case that was kept first
    {"blessing", "$blessed_ms, $blessed_by, $reason"},         // the first one
};

// The same step with the same bits: the better rate, the higher peak, the worse verdict.
constexpr const char* kJoinPoint = R"(ON CONFLICT DO UPDATE SET
  tokens_per_second = max(tokens_per_second, excluded.tokens_per_second),
  peak_bytes = max(peak_bytes, excluded.peak_bytes),
  verdict = (SELECT name FROM verdict WHERE name IN (curve_point.verdict, excluded.verdict)
             ORDER BY severity DESC LIMIT 1))";

// The row that ended last speaks for the run; a run that has not ended says the least.
constexpr const char* kJoinRun = R"(ON CONFLICT (key) DO UPDATE SET
  started_ms = min(started_ms, excluded.started_ms), version = max(version, excluded.version),
  replay = max(replay, excluded.replay),
  (ended_ms, state, exit_code) = (
    SELECT e, s, x FROM (SELECT run.ended_ms AS e, run.state AS s, run.exit_code AS x
                         UNION ALL SELECT excluded.ended_ms, excluded.state, excluded.exit_code)
    ORDER BY e DESC, s DESC, x DESC LIMIT 1))";

std::string listed(SQLite::Database& db, const std::string& table, const std::string& form,
                   const std::string& where) {
  SQLite::Statement names(
      db, "SELECT group_concat(replace(?2, '%', name), ', ') FROM pragma_table_info(?1) WHERE " + where);
  names.bind(1, table);
  names.bind(2, form);
  names.executeStep();
  return names.getColumn(0).getString();
}

std::string with_prefix(std::string order, const std::string& prefix) {
  for (size_t at; (at = order.find('$')) != std::string::npos;) order.replace(at, 1, prefix);
  return order;
}

}  // namespace

std::string on_conflict(SQLite::Database& db, const std::string& table) {
  if (table == "run") return kJoinRun;
  if (table == "curve_point") return kJoinPoint;
  if (!kRules.contains(table)) return "ON CONFLICT DO NOTHING";
  const std::string& rule = kRules.at(table);
  if (rule == kLargest) return "ON CONFLICT DO UPDATE SET hits = max(hits, excluded.hits)";
  const std::string values = "pk = 0 AND name NOT IN ('run', 'key', 'outcome')",
                    update = "ON CONFLICT DO UPDATE SET ";
  if (rule == kSmallest) return update + listed(db, table, "% = min(%, excluded.%)", values);
  return update + listed(db, table, "% = excluded.%", values) + " WHERE (" + with_prefix(rule, "excluded.") +
         ") < (" + with_prefix(rule, "") + ")";
}

std::string columns_of(SQLite::Database& db, const std::string& table, const std::string& form) {
  return listed(db, table, form, "name <> 'id'");
}

}  // namespace lockstep::dashboard
