// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/read_back.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include "dashboard/store/bits.h"

namespace lockstep::dashboard {

namespace {

// The texts of the first column.
std::vector<std::string> texts(const Store& store, const char* query, const std::string& parameter) {
  SQLite::Statement row(store.database(), query);
  row.bind(1, parameter);
  std::vector<std::string> list;
  while (row.executeStep()) list.push_back(row.getColumn(0).getString());
  return list;
}

}  // namespace

std::optional<Run> unfinished_run(const Store& store) {
  SQLite::Statement row(
      store.database(),
      "SELECT * FROM run WHERE state <> 'finished' ORDER BY started_ms DESC, id DESC LIMIT 1");
  if (!row.executeStep()) return std::nullopt;
  const auto text = [&](const char* column) { return row.getColumn(column).getString(); };
  const auto number = [&](const char* column) { return row.getColumn(column).getInt64(); };
  return Run{.id = text("name"),
             .command = text("command"),
             .seed = from_column(number("seed")),
             .numerics = text("numerics"),
             .plan = text("plan"),
             .build_hash = text("build_hash"),
             .commit = text("commit_id"),
             .cpu = text("cpu"),
             .compiler = text("compiler"),
             .libtorch = text("libtorch"),
             .engine = text("engine"),
             .version = text("version"),
             .replay = text("replay"),
             .cores = number("cores"),
             .started_ms = number("started_ms")};
}

std::vector<std::string> outcomes(const Store& store, const std::string& run) {
  return texts(store,
               "SELECT c.suite || '|' || c.number || '|' || c.token || '|' || c.verdict || '|' || c.bucket "
               "FROM cases c JOIN run r ON r.id = c.run WHERE r.name = ?",
               run);
}

std::vector<PassedCase> passed_cases(const Store& store, const std::string& run, const std::string& suite,
                                     PassedOrder order, int64_t limit) {
  SQLite::Statement row(store.database(),
                        std::string(R"(SELECT c.token, c.time_ns FROM cases c JOIN run r ON r.id = c.run
      WHERE r.name = ? AND c.suite = ? AND (c.verdict = 'equal' OR c.verdict LIKE 'explained%')
        AND c.token NOT LIKE 'none:%' ORDER BY )") +
                            (order == PassedOrder::kFirst ? "c.number < 0, c.number" : "c.time_ns DESC") +
                            ", c.token LIMIT ?");
  row.bind(1, run);
  row.bind(2, suite);
  row.bind(3, limit);
  std::vector<PassedCase> cases;
  while (row.executeStep()) cases.push_back(row.getColumns<PassedCase, 2>());
  return cases;
}

std::vector<KeptCase> kept_cases(const Store& store) {
  SQLite::Statement row(store.database(), R"(
      WITH slow AS (SELECT token, min(time_ns) AS time_ns FROM cases
                    WHERE token IN (SELECT token FROM corpus WHERE origin = 'slow') GROUP BY token)
      SELECT c.token, c.suite, c.bucket, c.origin, c.since_ms, c.note, coalesce(s.time_ns, 0)
      FROM corpus c LEFT JOIN slow s ON s.token = c.token
      UNION ALL SELECT f.token, f.suite, f.bucket, 'failure', r.started_ms, '', 0
      FROM v_failures f JOIN run r ON r.id = f.run_id)");
  std::vector<KeptCase> cases;
  while (row.executeStep()) cases.push_back(row.getColumns<KeptCase, 7>());
  return cases;
}

std::vector<std::string> replayed_tokens(const Store& store, const std::string& run) {
  return texts(store, "SELECT token FROM v_replayed WHERE run = ?", run);
}

}  // namespace lockstep::dashboard
