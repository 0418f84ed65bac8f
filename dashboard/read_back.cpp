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

}  // namespace lockstep::dashboard
