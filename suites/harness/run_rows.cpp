// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/run_rows.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "dashboard/store/read_back.h"
#include "engine/values/error.h"
#include "suites/core/outcome.h"
#include "suites/harness/environment.h"

namespace lockstep::suites {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

void read_verdicts(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(db, "SELECT suite, verdict, cases FROM v_verdicts WHERE run = ?");
  row.bind(1, summary.run);
  while (row.executeStep()) {
    const int64_t cases = row.getColumn(2).getInt64();
    summary.verdicts[row.getColumn(0).getString()][row.getColumn(1).getString()] += cases;
    summary.cases += cases;
  }
}

void read_failures(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(db,
                        "SELECT bucket, suite, verdict, token, replay, explanation, cases FROM v_failures "
                        "WHERE run = ? ORDER BY bucket");
  row.bind(1, summary.run);
  while (row.executeStep()) summary.failures.push_back(row.getColumns<FailureSummary, 7>());
}

// What was refused, and apart from it what was not even asked or could not be judged.
void read_refusals(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(
      db,
      "SELECT suite, op, reason, hits FROM v_refusals WHERE run = ? ORDER BY suite, hits DESC, op, reason");
  row.bind(1, summary.run);
  while (row.executeStep()) {
    const auto suite = row.getColumn(0).getString(), reason = row.getColumn(2).getString();
    const int64_t cases = row.getColumn(3).getInt64();
    if (const auto what = unmeasured(suite, reason); !what.empty())
      summary.unmeasured[what] += cases;
    else
      summary.refusals.push_back({suite, row.getColumn(1).getString(), reason, cases});
  }
}

void read_faults(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(db,
                        "SELECT fault, class, found, cases, shrunk_ops, suite, token, note FROM v_faults "
                        "WHERE run = ? ORDER BY length(class), class, fault");
  row.bind(1, summary.run);
  while (row.executeStep())
    summary.faults.push_back({row.getColumn(0).getString(), row.getColumn(1).getString(),
                              row.getColumn(2).getInt() != 0, row.getColumn(3).getInt64(),
                              row.getColumn(4).getInt64(), row.getColumn(5).getString(),
                              row.getColumn(6).getString(), row.getColumn(7).getString()});
}

// The labels "golden STATE: OP DTYPE" of the suite golden, by state.
void read_goldens(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(db, "SELECT label, hits FROM v_labels WHERE run = ? AND label LIKE 'golden %: %'");
  row.bind(1, summary.run);
  while (row.executeStep()) {
    const auto label = row.getColumn(0).getString();
    const size_t start = std::string_view("golden ").size();
    summary.goldens[label.substr(start, label.find(':') - start)] += row.getColumn(1).getInt64();
  }
}

// The labels that fallback_label makes: so many ops in each of so many cases.
void read_fallbacks(SQLite::Database& db, RunSummary& summary) {
  SQLite::Statement row(db, "SELECT label, hits FROM v_labels WHERE run = ? AND label LIKE 'ran whole: %'");
  row.bind(1, summary.run);
  const auto prefix = fallback_label(0).size() - 1;
  while (row.executeStep())
    summary.fallbacks +=
        std::stoll(row.getColumn(0).getString().substr(prefix)) * row.getColumn(1).getInt64();
}

// What decides the sequence of a run, as its plan names it.
template <class AnyOptions, class F>
void each_asked(AnyOptions& o, const F& f) {
  f("engine", o.engine);
  f("world", o.world);
  f("ranks", o.ranks);
  f("suites", o.suites);
  f("cases", o.cases);
  f("seconds", o.seconds);
  f("shard", o.shard);
  f("shards", o.shards);
  f("fault", o.fault);
  f("required", o.required);
}

std::string digest_of(const std::vector<std::string>& outcomes) {
  uint64_t digest = 0;
  for (const auto& line : outcomes) digest += stable_hash(line);
  return hex(digest);
}

}  // namespace

std::string unmeasured(const std::string& suite, const std::string& reason) {
  if (reason.starts_with(kLeftOut))
    return concat("left out of ", suite, ": ", reason.substr(kLeftOut.size()));
  if (reason.starts_with(kNotJudged))
    return concat("not judged in ", suite, ": ", reason.substr(kNotJudged.size()));
  return "";
}

std::string fallback_label(int64_t ops) {
  return concat("ran whole: ", ops);
}

std::string plan_json(const RunOptions& o, const RunPlan& plan) {
  Json json = {{"suites", Json::array()},
               {"labels", Json::array()},
               {"ops", Json::array()},
               {"pairs", Json::array()},
               {"list", default_leasts()}};
  for (const auto& [name, least] : plan.least) json["suites"].push_back({{"name", name}, {"least", least}});
  for (const auto& [name, least] : plan.coverage)
    json[is_pair(name) ? "pairs"
         : is_op(name) ? "ops"
                       : "labels"]
        .push_back({{"name", name}, {"least", least}});
  auto& request = json["request"] = {{"planned", std::to_string(plan.cases)}};
  each_asked(o, [&](const char* name, const auto& value) { request[name] = value; });
  return json.dump();
}

dashboard::Run unfinished_run(dashboard::Store& store, const std::string& db) {
  const auto found = dashboard::unfinished_run(store);
  LOCKSTEP_CHECK(found, "[run] --resume: ", db, " holds no unfinished run; start one without --resume");
  const auto& run = *found;
  dashboard::Run now;
  describe_environment(now);
  LOCKSTEP_CHECK(now.build_hash == run.build_hash, "[run] --resume: run ", run.id,
                 " was made by another binary (", run.build_hash, ", this is ", now.build_hash,
                 "); its verdicts may not be mixed with this one's: ", "start a new run without --resume");
  return run;
}

std::string numerics_of(const RunOptions& o) {
  return concat(o.lane == Lane::kExact ? "exact" : "fast", o.library ? " --reduce library" : "",
                o.fallback ? " --fallback-replicate" : "", o.device == "cpu" ? "" : " --device " + o.device);
}

RunOptions resumed_options(RunOptions now, const dashboard::Run& run) {
  const auto request = Json::parse(run.plan).at("request");
  each_asked(now, [&](const char* name, auto& value) { request.at(name).get_to(value); });
  now.seed = run.seed;
  LOCKSTEP_CHECK(run.numerics == numerics_of(now), "[run] --resume: run ", run.id,
                 " was made with --numerics ", run.numerics, "; pass the same");
  return now;
}

RunSummary read_summary(dashboard::Store& store, const dashboard::Run& run) {
  RunSummary summary;
  summary.run = run.id;
  read_verdicts(store.database(), summary);
  read_failures(store.database(), summary);
  read_refusals(store.database(), summary);
  read_faults(store.database(), summary);
  read_goldens(store.database(), summary);
  read_fallbacks(store.database(), summary);
  summary.digest = digest_of(dashboard::outcomes(store, run.id));
  return summary;
}

std::map<std::string, double> rates(dashboard::Store& store, const std::string& run) {
  SQLite::Statement row(
      store.database(),
      "SELECT suite, sum(cases) / sum(seconds) FROM v_verdicts WHERE run = ? GROUP BY suite "
      "HAVING sum(seconds) > 0");
  row.bind(1, run);
  std::map<std::string, double> found;
  while (row.executeStep()) found[row.getColumn(0).getString()] = row.getColumn(1).getDouble();
  return found;
}

// Files beside the database whose names are its own, ".shard-" and a number.
std::vector<std::string> shard_files(const std::string& db) {
  const fs::path path = fs::absolute(db);
  const auto prefix = path.filename().string() + ".shard-";
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path.parent_path())) {
    const auto name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() == prefix.size()) continue;
    const auto rest = name.substr(prefix.size());
    if (std::all_of(rest.begin(), rest.end(), [](char ch) { return ch >= '0' && ch <= '9'; }))
      found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

void remove_worker_files(const std::string& db) {
  for (const auto& path : shard_files(db))
    for (const auto& end : {"", "-journal", "-wal", "-shm"}) fs::remove(path + end);
}

}  // namespace lockstep::suites
