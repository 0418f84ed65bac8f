// SPDX-License-Identifier: Apache-2.0
#include "dashboard/read_back.h"

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

std::vector<KeptCase> kept_cases(const Store& store) {
  SQLite::Statement row(store.database(), R"(SELECT token, suite, bucket, origin, since_ms, note FROM corpus
      UNION ALL SELECT f.token, f.suite, f.bucket, 'failure', r.started_ms, ''
      FROM v_failures f JOIN run r ON r.id = f.run_id)");
  std::vector<KeptCase> cases;
  while (row.executeStep())
    cases.push_back({row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                     row.getColumn(3).getString(), row.getColumn(4).getInt64(),
                     row.getColumn(5).getString()});
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
