// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/read_back.h"

#include <SQLiteCpp/SQLiteCpp.h>

namespace lockstep::dashboard {

std::optional<Run> unfinished_run(const Store& store) {
  SQLite::Statement row(
      store.database(),
      "SELECT * FROM run WHERE state <> 'finished' ORDER BY started_ms DESC, id DESC LIMIT 1");
  if (!row.executeStep()) return std::nullopt;
  Run run;
  run.id = row.getColumn("name").getString();
  run.command = row.getColumn("command").getString();
  run.seed = static_cast<uint64_t>(row.getColumn("seed").getInt64());
  run.numerics = row.getColumn("numerics").getString();
  run.plan = row.getColumn("plan").getString();
  run.build_hash = row.getColumn("build_hash").getString();
  run.commit = row.getColumn("commit_id").getString();
  run.cpu = row.getColumn("cpu").getString();
  run.engine = row.getColumn("engine").getString();
  run.version = row.getColumn("version").getString();
  run.cores = row.getColumn("cores").getInt64();
  run.compiler = row.getColumn("compiler").getString();
  run.libtorch = row.getColumn("libtorch").getString();
  run.started_ms = row.getColumn("started_ms").getInt64();
  return run;
}

std::vector<std::string> outcomes(const Store& store, const std::string& run) {
  SQLite::Statement row(
      store.database(),
      "SELECT c.suite || '|' || c.number || '|' || c.token || '|' || c.verdict || '|' || c.bucket "
      "FROM cases c JOIN run r ON r.id = c.run WHERE r.name = ?");
  row.bind(1, run);
  std::vector<std::string> lines;
  while (row.executeStep()) lines.push_back(row.getColumn(0).getString());
  return lines;
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
  while (row.executeStep()) cases.push_back({row.getColumn(0).getString(), row.getColumn(1).getInt64()});
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
  while (row.executeStep())
    cases.push_back({row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                     row.getColumn(3).getString(), row.getColumn(4).getInt64(), row.getColumn(5).getString(),
                     row.getColumn(6).getInt64()});
  return cases;
}

std::vector<std::string> replayed_tokens(const Store& store, const std::string& run) {
  SQLite::Statement row(store.database(), "SELECT token FROM v_replayed WHERE run = ?");
  row.bind(1, run);
  std::vector<std::string> tokens;
  while (row.executeStep()) tokens.push_back(row.getColumn(0).getString());
  return tokens;
}

}  // namespace lockstep::dashboard
