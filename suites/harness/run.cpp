// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/run.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "dashboard/store/merge.h"
#include "dashboard/store/read_back.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/fault.h"
#include "suites/golden/golden.h"
#include "suites/harness/case_job.h"
#include "suites/harness/environment.h"
#include "suites/harness/gates.h"
#include "suites/harness/kept.h"
#include "suites/harness/random_coverage.h"
#include "suites/harness/run_rows.h"
#include "suites/harness/tell.h"
#include "suites/harness/witnesses.h"
#include "suites/harness/worker_pool.h"

namespace lockstep::suites {
namespace {

// The part of 0 .. cases-1 that falls to this shard.
int64_t in_shard(int64_t cases, const RunOptions& o) {
  return cases <= o.shard ? 0 : (cases - o.shard - 1) / o.shards + 1;
}

// What a run does that names nothing: for this much, default_leasts() holds.
bool is_default(const RunOptions& o) {
  return o.suites.empty() && o.cases == 0 && o.seconds <= 0 && o.shards == 1;
}

void check(const RunOptions& o) {
  LOCKSTEP_CHECK(o.cases >= 0 && o.seconds >= 0 && o.jobs >= 0,
                 "[run] --cases, --time and --jobs must not be negative");
  LOCKSTEP_CHECK(o.hang_seconds > 0 && o.least_rate >= 0,
                 "[run] --hang must be above 0, and --least-rate must not be negative");
  LOCKSTEP_CHECK(o.shards >= 1 && o.shard >= 0 && o.shard < o.shards,
                 "[run] --shard takes i/n with 1 <= i <= n");
  if (!o.fault.empty()) {
    find_fault(o.fault);
    LOCKSTEP_CHECK(o.engine == "lockstep", "[run] --fault ", o.fault, ": no fault can be planted in ",
                   o.engine, "; leave --engine out");
  }
  if (o.suites.empty() || std::find(o.suites.begin(), o.suites.end(), "golden") != o.suites.end())
    golden_folder();
}

// What a run that died left behind: committed cases go into its database, then its files go.
void collect_shards(dashboard::Store& store, const std::string& db) {
  const auto paths = shard_files(db);
  dashboard::merge(store, paths);
  remove_worker_files(db);
}

struct Prepared {
  dashboard::Run run;
  Recorded recorded;
  std::vector<dashboard::KeptCase> known;  // every kept case that the run has heard of
  std::vector<dashboard::KeptCase> kept;   // and those that it replays
};

// Opens the database first, so that an unusable one is told before any case runs.
Prepared prepare(RunOptions& options, const RunPlan& plan, const std::vector<dashboard::KeptCase>& named,
                 const RunListener& listener) {
  auto store = dashboard::Store::open_writer(options.db);
  collect_shards(store, options.db);
  Prepared p;
  p.run.command = options.command;
  p.run.seed = options.seed;
  p.run.numerics = numerics_of(options);
  p.run.plan = plan_json(options, plan);
  describe_environment(p.run);
  p.run.engine = plan.engine.name;
  p.run.version = plan.engine.version;
  // But for a planted fault, which is the variant of its cases.
  p.run.replay = replay_flags("", options.engine, options.world, options.ranks, options.chaos);
  if (!options.commit.empty()) p.run.commit = options.commit;
  dashboard::Recorder(store, p.run, "supervisor").flush();
  p.known = known_cases(named, store);
  p.kept = kept_cases(options, p.known, plan.chosen, listener.message);
  return p;
}

// Kept cases are numbered by their places in the list: whether those that the run has replayed are where it
// had them.
bool stand_as_they_did(const Prepared& p, const std::vector<std::string>& replayed) {
  std::set<int64_t> then, now;
  for (const auto& [suite, numbers] : p.recorded)
    for (const auto number : numbers)
      if (number < 0) then.insert(number);
  for (const auto& token : replayed)
    now.insert(p.kept.begin() - 1 - std::ranges::find(p.kept, token, &dashboard::KeptCase::token));
  return then == now;
}

Prepared prepare_resumed(RunOptions& options, const std::vector<dashboard::KeptCase>& named,
                         const RunListener& listener) {
  LOCKSTEP_CHECK(std::filesystem::exists(options.db), "[run] --resume: there is no ", options.db,
                 "; start a run without --resume");
  auto store = dashboard::Store::open_writer(options.db);
  collect_shards(store, options.db);
  Prepared p;
  p.run = unfinished_run(store, options.db);
  options = resumed_options(options, p.run);
  dashboard::Recorder recorder(store, p.run, "supervisor");
  for (const auto& suite : suites())
    for (const auto number : recorder.recorded_numbers(suite.name)) p.recorded[suite.name].insert(number);
  p.known = known_cases(named, store);
  // What this run itself has kept is for the next.
  std::erase_if(p.known, [&](const auto& k) { return k.since_ms == p.run.started_ms; });
  p.kept = kept_cases(options, p.known, plan(options).chosen, listener.message);
  LOCKSTEP_CHECK(stand_as_they_did(p, dashboard::replayed_tokens(store, p.run.id)), "[run] --resume: run ",
                 p.run.id,
                 " has replayed other kept cases than there are now; start a new run without --resume");
  return p;
}

int64_t count_of(const std::vector<dashboard::KeptCase>& kept) {
  return std::ssize(kept);
}

PoolResult run_workers(const RunOptions& options, const RunPlan& plan, const Prepared& prepared,
                       const RunListener& listener) {
  if (plan.chosen.empty()) return {};
  PoolOptions pool;
  pool.jobs = options.jobs;
  pool.cases = plan.cases == kEndless ? kEndless : in_shard(plan.cases, options) + count_of(prepared.kept);
  pool.seconds = options.seconds;
  pool.hang_seconds = options.hang_seconds;
  CaseJob job{options, prepared.run, {}, prepared.kept, prepared.recorded};
  for (const auto* suite : plan.chosen) job.chosen.emplace_back(suite->name);
  const auto tick = [&](int64_t done, double seconds) {
    listener.progress(done, pool.cases == kEndless ? 0 : pool.cases, seconds);
  };
  return run_pool(pool, options.worker, bytes_of(job), {tick, listener.message});
}

// "left out of SUITE: …" -> cases of the suite that the engine could not run.
int64_t left_out_of(const std::string& suite, const RunSummary& summary) {
  int64_t cases = 0;
  for (const auto& [what, count] : summary.unmeasured)
    if (what.starts_with(unmeasured(suite, std::string(kLeftOut)))) cases += count;
  return cases;
}

// The rules that decide the exit code, each recorded with what it asked for and what it found.
void judge_run(const RunPlan& plan, RunSummary& summary, dashboard::Recorder& recorder) {
  bool any = false;
  for (const auto* suite : plan.chosen) {
    const auto& verdicts = summary.verdicts[suite->name];
    summary.codes.merge(codes_of(*suite, verdicts));
    const int64_t left_out = left_out_of(suite->name, summary), got = measured(verdicts);
    const int64_t least = std::max<int64_t>(0, plan.least.at(suite->name) - left_out);
    recorder.record(dashboard::Gate{concat("measured ", suite->name), concat("at least ", least),
                                    std::to_string(got), got >= least});
    if (got < least) summary.codes.insert(kNotMeasured);
    any |= got > 0;
  }
  if (!any) summary.codes.insert(kNotMeasured);
  const bool agreed = !summary.codes.contains(kDifference) && !summary.codes.contains(kNondeterminism);
  recorder.record(dashboard::Gate{"no unexplained difference", "0 failures",
                                  concat(summary.failures.size(), " buckets"), agreed});
}

void judge_coverage(const Leasts& leasts, const dashboard::Store& store, RunSummary& summary,
                    dashboard::Recorder& recorder) {
  if (leasts.empty()) return;
  const auto missed = lacking(store, summary.run, leasts);
  summary.covered.push_back(text_of(leasts, missed));
  for (const auto& l : missed) summary.lacking.push_back(text_of({l}));
  recorder.record(dashboard::Gate{"coverage", concat(leasts.size(), " labels, ops and pairs, each its least"),
                                  concat("lacking: ", text_of(missed)), missed.empty()});
  if (!missed.empty()) summary.codes.insert(kNotMeasured);
}

void judge_random_pairs(const RunPlan& plan, const dashboard::Store& store, RunSummary& summary,
                        dashboard::Recorder& recorder) {
  if (!plan.draws) return;
  const auto coverage = random_coverage(store, summary.run);
  summary.covered.push_back(text_of(coverage));
  if (plan.chosen.size() == 1)
    for (const auto& line : absent_pairs()) summary.covered.push_back("  " + line);
  if (plan.all_random_pairs) judge(coverage, summary, recorder);
}

void judge_rate(double least, RunSummary& summary, dashboard::Recorder& recorder) {
  if (least <= 0) return;
  const double got = summary.cases_per_second_per_core;
  recorder.record(dashboard::Gate{"cases per second and core", concat("at least ", least),
                                  std::to_string(std::llround(got)), got >= least});
  if (got < least) summary.codes.insert(kSlower);
}

int64_t cases_in(const Recorded& recorded) {
  int64_t cases = 0;
  for (const auto& [suite, numbers] : recorded) cases += std::ssize(numbers);
  return cases;
}

// A run of every suite may be asked for each op that the list names: coverage that lacks one has a gap.
void expect_ops(const RunPlan& plan, dashboard::Recorder& recorder) {
  if (plan.chosen.size() != suites().size()) return;
  for (const auto& [name, least] : default_leasts())
    if (is_op(name)) recorder.expect_op(name);
}

void record_rates(dashboard::Store& store, const RunSummary& summary, dashboard::Recorder& recorder) {
  for (const auto& [suite, rate] : rates(store, summary.run))
    recorder.record(dashboard::Measurement{concat(suite, " cases per second per core"), "1/s", rate});
  recorder.record(
      dashboard::Measurement{"cases per second per core", "1/s", summary.cases_per_second_per_core});
}

// From now on the next runs replay these first. With a fault planted, what passes says nothing.
void keep(const RunOptions& options, const RunPlan& plan, const Prepared& prepared, RunSummary& summary,
          const dashboard::Store& store, dashboard::Recorder& recorder) {
  if (!prepared.kept.empty()) {
    SQLite::Statement row(store.database(), "SELECT count(*) FROM v_replayed WHERE run = ? AND now <> ''");
    row.bind(1, summary.run);
    row.executeStep();
    summary.covered.push_back(concat("kept cases: ", prepared.kept.size(), " replayed first, ",
                                     row.getColumn(0).getInt64(), " fail"));
  }
  for (const auto& k : prepared.kept) recorder.keep(k);
  for (const auto& f : summary.failures)
    if (!find_suite(f.suite).self_check)
      recorder.keep({f.token, f.suite, f.bucket, "failure", prepared.run.started_ms, ""});
  if (!options.replay_kept || !options.fault.empty()) return;
  for (const auto& k : new_witnesses(store, prepared.run, plan.chosen, prepared.known)) recorder.keep(k);
}

// What a run that stopped at its first failure still owes.
RunPlan without_demands(RunPlan plan) {
  for (auto& [suite, least] : plan.least) least = 0;
  plan.coverage.clear();
  plan.all_random_pairs = false;
  return plan;
}

RunSummary conclude(const RunOptions& options, const RunPlan& plan, const Prepared& prepared,
                    const PoolResult& pool, double seconds) {
  auto store = dashboard::Store::open_writer(options.db);
  collect_shards(store, options.db);
  auto summary = read_summary(store, prepared.run);
  summary.seed = options.seed;
  summary.planned = plan.cases == kEndless ? 0 : in_shard(plan.cases, options) + count_of(prepared.kept);
  summary.seconds = seconds;
  summary.cases_per_second_per_core =
      static_cast<double>(summary.cases - cases_in(prepared.recorded)) / seconds / options.jobs;
  summary.interrupted = pool.interrupted;
  if (pool.worker_code != 0) summary.codes.insert(pool.worker_code);
  if (pool.interrupted) summary.codes.insert(kNotMeasured);
  dashboard::Recorder recorder(store, prepared.run, "supervisor");
  for (const auto* suite : plan.left_out)
    summary.unmeasured[unmeasured(suite->name, left_out(name(suite->needs)).refusal.reason)];
  judge_run(plan, summary, recorder);
  judge_coverage(plan.coverage, store, summary, recorder);
  judge_random_pairs(plan, store, summary, recorder);
  judge_rate(options.least_rate, summary, recorder);
  record_rates(store, summary, recorder);
  keep(options, plan, prepared, summary, store, recorder);
  expect_ops(plan, recorder);
  summary.stopped = pool.stopped;
  const bool finished = !pool.interrupted && pool.worker_code == 0;
  recorder.finish(finished ? "finished" : "interrupted", winning(summary.codes));
  return summary;
}

}  // namespace

RunPlan plan(const RunOptions& options) {
  RunPlan p;
  p.engine = profile_of(options.engine, {.world = options.world,
                                         .device = parse_device_type(options.device),
                                         .ranks = options.ranks,
                                         .seconds = options.hang_seconds});
  const auto choose = [&](const Suite& s) { (p.engine.has(s.needs) ? p.chosen : p.left_out).push_back(&s); };
  if (options.suites.empty())
    for (const auto& s : suites()) choose(s);
  for (const auto& name : options.suites) choose(find_suite(name));
  if (p.chosen.empty()) return p;
  Sequence sequence(p.chosen);
  const bool counted = options.cases > 0 || options.seconds <= 0;
  const int64_t wanted = options.cases > 0 ? options.cases : sequence.rounds(kDefaultRounds);
  p.cases = counted ? std::min(wanted, sequence.size()) : sequence.size();
  for (const auto* s : p.chosen) {
    p.least[s->name] = 1;
    p.draws = p.draws || std::string_view(s->name) == "random";
  }
  p.coverage = options.required;
  if (is_default(options) && p.left_out.empty())
    p.coverage.insert(default_leasts().begin(), default_leasts().end());
  if (!counted || options.seconds > 0) return p;  // the clock decides how many: at least one of each
  std::map<std::string, int64_t> share;
  for (int64_t n = options.shard; n < p.cases; n += options.shards) ++share[sequence.at(n).suite->name];
  for (auto& [name, least] : p.least) least = least_of(share[name]);
  p.all_random_pairs = p.draws && options.shards == 1 && share["random"] >= enough_random_cases();
  return p;
}

RunSummary run(RunOptions options, const RunListener& listener) {
  check(options);
  if (options.jobs == 0) options.jobs = processors();
  auto the_plan = plan(options);
  const auto named = named_cases(options);
  const auto prepared = options.resume ? prepare_resumed(options, named, listener)
                                       : prepare(options, the_plan, named, listener);
  if (options.resume) the_plan = plan(options);
  listener.started(options, the_plan, prepared.run.id);
  const auto began = dashboard::now_ms();
  const auto pool = run_workers(options, the_plan, prepared, listener);
  return conclude(options, pool.stopped ? without_demands(the_plan) : the_plan, prepared, pool,
                  static_cast<double>(std::max<int64_t>(1, dashboard::now_ms() - began)) / 1000);
}

}  // namespace lockstep::suites
