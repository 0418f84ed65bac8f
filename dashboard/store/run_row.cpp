// SPDX-License-Identifier: Apache-2.0
#include "dashboard/store/run_row.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dashboard/store/bits.h"
#include "dashboard/store/hash.h"
#include "dashboard/store/sql.h"
#include "dashboard/store/tables.h"

namespace lockstep::dashboard {
namespace {

// Lockstep's own engine is in the build; another's name and version are part of what ran.
void add_engine(Hasher& hash, const Run& run) {
  if (run.engine != kOwnEngine) hash.add(run.engine).add(run.version);
}

}  // namespace

Key key_of(const Run& run) {
  Hasher hash;
  hash.add(run.id).add(run.command).add(to_column(run.seed)).add(run.numerics).add(run.plan);
  hash.add(run.build_hash).add(run.commit).add(run.cpu).add(run.cores).add(run.compiler).add(run.libtorch);
  add_engine(hash, run);
  return hash.key();
}

Key case_key(const Run& run, std::string_view suite, std::string_view law, std::string_view variant,
             std::string_view token) {
  Hasher hash;
  hash.add(run.build_hash).add(run.numerics).add(to_column(run.seed));
  hash.add(suite).add(law).add(variant).add(token);
  add_engine(hash, run);
  return hash.key();
}

std::vector<PlanItem> plan_of(const Run& run) {
  std::vector<PlanItem> items;
  try {
    const nlohmann::json plan = nlohmann::json::parse(run.plan);
    for (const auto& [list, kind] : {std::pair{"suites", "suite"}, std::pair{"labels", "label"}}) {
      for (const auto& item : plan.value(list, nlohmann::json::array())) {
        items.push_back({kind, item.at("name").get<std::string>(), item.at("least").get<int64_t>()});
      }
    }
  } catch (const nlohmann::json::exception& e) {
    throw std::invalid_argument("[recorder] the plan is not of the form that dashboard/store/rows.h shows: " +
                                run.plan + " (" + e.what() + ")");
  }
  return items;
}

int64_t insert_run(SQLite::Database& db, const Run& run, const std::vector<PlanItem>& plan) {
  SQLite::Statement insert(
      db, "INSERT INTO run (" + columns_of(db, "run") + ") VALUES (" + columns_of(db, "run", "?") +
              ") ON CONFLICT (key) DO UPDATE SET started_ms = min(started_ms, excluded.started_ms)");
  sql::run(insert, key_of(run), run.id, run.command, to_column(run.seed), run.numerics, run.plan,
           run.build_hash, run.commit, run.cpu, run.cores, run.compiler, run.libtorch, run.started_ms,
           run.ended_ms, run.state, run.exit_code, run.engine, run.version, run.replay);
  SQLite::Statement find(db, "SELECT id FROM run WHERE key = ?");
  const int64_t id = *sql::find(find, key_of(run));
  SQLite::Statement insert_item(db, "INSERT OR IGNORE INTO plan_item VALUES (?,?,?,?)");
  for (const PlanItem& item : plan) sql::run(insert_item, id, item.kind, item.name, item.least);
  return id;
}

}  // namespace lockstep::dashboard
