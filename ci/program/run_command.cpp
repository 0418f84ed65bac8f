// SPDX-License-Identifier: Apache-2.0
// lockstep run
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "ci/gate/judge.h"
#include "ci/program/commands.h"
#include "ci/program/numbers.h"
#include "dashboard/report/report.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/shell.h"
#include "suites/core/suite.h"
#include "suites/engines/crew.h"
#include "suites/engines/lockstep_engine.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/chaos.h"
#include "suites/harness/run.h"
#include "suites/harness/run_rows.h"

namespace lockstep::program {
namespace {

using suites::RunOptions;
using suites::RunSummary;
using Json = nlohmann::json;

struct RunFlags {
  RunOptions options;
  std::string shard, numerics, reduce = "rank-order", report = "lockstep-report.html", baseline;
  std::vector<std::string> required;
  bool json = false;
  bool each_fault = false;  // the suite `faults` was asked for by its name
  Lane lane() const {
    check_world("run", options.world, options.ranks, options.engine, options.fault, options.suites);
    LOCKSTEP_CHECK(options.chaos.empty() || options.world == "gloo",
                   "[run] --chaos happens to processes of --world gloo; add it");
    if (!options.chaos.empty()) suites::parse_chaos(options.chaos);
    for (const auto& name : options.suites)
      LOCKSTEP_CHECK(!options.fallback || suites::find_suite(name).check == nullptr, "[run] the suite ", name,
                     " has no Programs, so no ops that could run whole; leave out --fallback-replicate");
    if (parse_reduce("run", reduce))
      check_library("run", options.world, options.engine, options.device, options.suites);
    const Lane lane = parse_lane(numerics, options.device);
    check_device("run", options.device, lane, options.world, options.engine, options.fault);
    return lane;
  }
  bool on_cuda() const { return options.device == "cuda"; }
};

// A bar with rate and time left on a terminal, a plain line now and then elsewhere; on the standard error.
struct Progress {
  bool terminal = isatty(STDERR_FILENO) != 0;
  double limit = 0;  // seconds; 0: none
  double last = -1e9;
  bool drawn = false;

  // planned 0: how many is not known.
  void update(int64_t done, int64_t planned, double seconds) {
    if (seconds - last < (terminal ? 0.2 : 10) || (!terminal && seconds < 1)) return;
    last = seconds;
    std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", text(done, planned, seconds).c_str());
    drawn = terminal;
  }
  // Clears the bar; it comes back with the next update.
  void finish() {
    if (drawn) std::fprintf(stderr, "\r\033[K");
    drawn = false;
  }
  // "[####----] 1200/6000 cases, 410/s, 12 s left"
  std::string text(int64_t done, int64_t planned, double seconds) const {
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    double part = planned > 0 ? static_cast<double>(done) / static_cast<double>(planned) : 0;
    double left = planned > 0 && rate > 0 ? static_cast<double>(planned - done) / rate : -1;
    if (limit > 0) {
      part = std::max(part, std::min(1.0, seconds / limit));
      left = left < 0 ? limit - seconds : std::min(left, limit - seconds);
    }
    const auto filled = static_cast<size_t>(part * 30);
    std::string line;
    if (terminal) line = "[" + std::string(filled, '#') + std::string(30 - filled, '-') + "] ";
    line +=
        concat(done, planned > 0 ? concat("/", planned) : "", " cases, ", static_cast<int64_t>(rate), "/s");
    if (left < 0) return line;
    const auto whole = static_cast<int64_t>(std::ceil(std::max(0.0, left)));
    return line + (whole < 100 ? concat(", ", whole, " s left")
                               : concat(", ", whole / 60, " min ", whole % 60, " s left"));
  }
};

void parse_shard(const std::string& text, RunOptions& options) {
  if (text.empty()) return;
  int used = 0;
  long i = 0, n = 0;
  const bool read =
      std::sscanf(text.c_str(), "%ld/%ld%n", &i, &n, &used) == 2 && used == static_cast<int>(text.size());
  LOCKSTEP_CHECK(read && i >= 1 && i <= n, "[run] --shard ", text,
                 ": write i/n with 1 <= i <= n, for example 1/4");
  options.shard = i - 1;
  options.shards = n;
}

// What came out in a worse class of verdict than in the baseline, or without one, or moves more.
using Worse = std::vector<gate::Finding>;

Worse worse_than(const std::string& baseline, const std::string& db) {
  static const std::set<std::string> asked = {"worse_verdict", "explained_more", "no_longer_judged",
                                              "refuses_more", "moved_more"};
  auto worse = gate::judge(baseline, db, gate::default_policy(), {}, gate::today()).findings;
  std::erase_if(worse, [](const auto& f) { return !asked.contains(f.rule); });
  return worse;
}

void print_worse(const Worse& worse, const std::string& baseline) {
  std::printf("verdicts worse than in %s: %zu\n", baseline.c_str(), worse.size());
  for (const auto& f : worse) {
    std::printf("  %s: %s: %s, here %s: %s\n", f.rule.c_str(), f.subject.c_str(), f.expected.c_str(),
                f.got.c_str(), f.detail.c_str());
    if (!f.replay.empty()) std::printf("    %s\n", f.replay.c_str());
  }
}

Json to_json(const Worse& worse) {
  Json list = Json::array();
  for (const auto& f : worse)
    list.push_back({{"rule", f.rule},
                    {"subject", f.subject},
                    {"expected", f.expected},
                    {"got", f.got},
                    {"replay", f.replay}});
  return list;
}

Json to_json(const RunSummary& s, const RunFlags& flags) {
  Json failures = Json::array();
  for (const auto& f : s.failures)
    failures.push_back({{"bucket", f.bucket},
                        {"suite", f.suite},
                        {"verdict", f.verdict},
                        {"token", f.token},
                        {"replay", f.replay},
                        {"cases", f.cases}});
  Json refusals = Json::array();
  for (const auto& r : s.refusals)
    refusals.push_back({{"suite", r.suite}, {"op", r.op}, {"reason", r.reason}, {"cases", r.cases}});
  Json faults = Json::array();
  for (const auto& f : s.faults)
    faults.push_back({{"fault", f.name},
                      {"class", f.klass},
                      {"found", f.found},
                      {"cases", f.cases},
                      {"shrunk_ops", f.shrunk_ops},
                      {"suite", f.suite},
                      {"token", f.token},
                      {"note", f.note}});
  const int code = winning(s.codes);
  auto codes = s.codes;
  if (codes.empty()) codes.insert(kAllEqual);
  return {{"run", s.run},
          {"seed", std::to_string(s.seed)},
          {"numerics", flags.lane() == Lane::kExact ? "exact" : "fast"},
          {"device", flags.options.device},
          {"planned", s.planned},
          {"cases", s.cases},
          {"seconds", s.seconds},
          {"cases_per_second_per_core", s.cases_per_second_per_core},
          {"verdicts", s.verdicts},
          {"failures", failures},
          {"refusals", refusals},
          {"faults", faults},
          {"covered", s.covered},
          {"engine", flags.options.engine},
          {"unmeasured", s.unmeasured},
          {"lacking", s.lacking},
          {"goldens", s.goldens},
          {"fallbacks", s.fallbacks},
          {"digest", s.digest},
          {"interrupted", s.interrupted},
          {"stopped", s.stopped},
          {"db", flags.options.db},
          {"report", flags.report},
          {"exit_code", code},
          {"exit_codes", codes},
          {"meaning", meaning(code)}};
}

void print_verdicts(const RunSummary& s) {
  std::map<std::string, int64_t> total;
  const auto print = [](const char* suite, const std::map<std::string, int64_t>& verdicts) {
    std::string line;
    for (const auto& [verdict, count] : verdicts)
      line += concat(line.empty() ? "" : ", ", count, " ", verdict);
    std::printf("  %-14s %s\n", suite, line.c_str());
  };
  for (const auto& [suite, verdicts] : s.verdicts) {
    print(suite.c_str(), verdicts);
    for (const auto& [verdict, count] : verdicts) total[verdict] += count;
  }
  print("all", total);
}

// "gave up: 3 aten::view (view) in program", "refused: 3 aten::view (due: view) in program"
void print_refusals(const RunSummary& s) {
  constexpr size_t kMost = 12;
  for (size_t i = 0; i < std::min(kMost, s.refusals.size()); ++i) {
    const auto& r = s.refusals[i];
    std::printf("%s: %ld %s (%s) in %s\n", r.reason.starts_with(suites::kDue) ? "refused" : "gave up",
                r.cases, r.op.empty() ? "programs" : r.op.c_str(), r.reason.c_str(), r.suite.c_str());
  }
  if (s.refusals.size() > kMost)
    std::printf("refused or gave up: %zu more kinds\n", s.refusals.size() - kMost);
}

void print_goldens(const RunSummary& s) {
  if (s.goldens.empty()) return;
  std::string line;
  for (const auto* state : {"recorded", "published", "computed", "not recorded"}) {
    const auto found = s.goldens.find(state);
    line += concat(line.empty() ? "" : ", ", found == s.goldens.end() ? 0 : found->second, " ", state);
  }
  std::printf("goldens: %s%s\n", line.c_str(),
              s.goldens.contains("recorded") ? "" : " (golden/README.md: how to record on a GPU)");
}

// "  K1   term-lost    found      3 cases  1 op   lockstep replay 'TOKEN' --fault term-lost"
void print_fault(const dashboard::PlantedFault& f) {
  const auto ops = f.token.empty() ? "-" : concat(f.shrunk_ops, f.shrunk_ops == 1 ? " op" : " ops");
  const auto replay =
      f.token.empty() ? "" : concat("lockstep replay ", shell_quoted(f.token), " --fault ", f.name);
  std::printf("  %-4s %-30s %-8s %4ld %-5s  %-5s  %s%s\n", f.klass.c_str(), f.name.c_str(),
              f.found ? "found" : "survived", f.cases, f.cases == 1 ? "case" : "cases", ops.c_str(),
              replay.c_str(), f.note.empty() ? "" : concat("  (", f.note, ")").c_str());
}

// How many were found; each of them where they were asked for, else those that were not, or not as stated.
void print_faults(const RunSummary& s, bool each) {
  if (s.faults.empty()) return;
  const auto found = std::count_if(s.faults.begin(), s.faults.end(), [](const auto& f) { return f.found; });
  std::printf("planted faults: %ld of %zu found\n", found, s.faults.size());
  for (const auto& f : s.faults)
    if (each || !f.found || !f.note.empty()) print_fault(f);
}

// Of ranks that parted, which came first: a line of the explanation.
std::string who_was_first(const std::string& explanation) {
  const auto at = explanation.find("ranks part in ");
  return at == std::string::npos
             ? ""
             : concat("    ", explanation.substr(at, explanation.find('\n', at) - at), "\n");
}

void print_summary(const RunSummary& s, const RunFlags& flags) {
  std::printf("%ld cases in %.1f s (%.0f per second and core)\n", s.cases, s.seconds,
              s.cases_per_second_per_core);
  print_verdicts(s);
  print_refusals(s);
  print_goldens(s);
  if (s.fallbacks > 0) std::printf("ran whole on every rank, without a rule: %ld ops\n", s.fallbacks);
  print_faults(s, flags.each_fault);
  for (const auto& f : s.failures)
    std::printf("  %s (%ld cases)\n    %s\n%s", f.bucket.c_str(), f.cases, f.replay.c_str(),
                who_was_first(f.explanation).c_str());
  if (s.stopped)
    std::printf("stopped at the first failure%s\n", flags.options.fail_fast
                                                        ? ", as --fail-fast asks"
                                                        : ": of the launcher's processes one is lost");
  for (const auto& line : s.covered) std::printf("%s\n", line.c_str());
  for (const auto& [what, cases] : s.unmeasured)
    std::printf("%s%s\n", what.c_str(), cases == 0 ? "" : concat(" (", cases, " cases)").c_str());
  if (!s.lacking.empty()) std::printf("not covered as the plan requires:\n");
  for (const auto& text : s.lacking) std::printf("  %s\n", text.c_str());
  std::printf("digest of the verdicts: %s\ndatabase: %s\n", s.digest.c_str(), flags.options.db.c_str());
  std::fflush(stdout);
}

// The page of the database. One that cannot be written any more takes nothing of the summary with it.
// @returns what is wrong; empty: nothing.
std::string write_report(const RunFlags& flags) {
  if (flags.report.empty()) return {};
  try {
    dashboard::write_report(dashboard::Store::open_reader(flags.options.db), flags.report);
    return {};
  } catch (const dashboard::StoreError& e) {
    return e.what();
  }
}

void conclude(RunSummary& summary, const RunFlags& flags) {
  if (!flags.json) print_summary(summary, flags);
  Worse worse;
  if (!flags.baseline.empty()) {
    worse = worse_than(flags.baseline, flags.options.db);
    if (!flags.json) print_worse(worse, flags.baseline);
    for (const auto& f : worse)
      if (f.effect == gate::Effect::kBlock) summary.codes.insert(f.code);
  }
  const auto wrong = write_report(flags);
  if (!wrong.empty()) {
    std::fprintf(stderr, "lockstep: %s\n", wrong.c_str());
    summary.codes.insert(kStoreUnusable);
  }
  if (flags.json) {
    auto json = to_json(summary, flags);
    if (!flags.baseline.empty()) json["worse"] = to_json(worse);
    if (!wrong.empty()) json["error"] = wrong;
    std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
    return;
  }
  if (!flags.report.empty() && wrong.empty()) std::printf("report: %s\n", flags.report.c_str());
  const int code = winning(summary.codes);
  std::printf("exit %d: %s\n", code, meaning(code));
}

int run(const RunFlags& asked) {
  auto flags = asked;
  auto& options = flags.options;
  options.library = parse_reduce("run", flags.reduce);
  options.lane = flags.lane();
  parse_shard(flags.shard, options);
  if (const auto code = take_part(options.world, options.ranks, options.hang_seconds)) return *code;
  if (suites::joins(options.world, options.ranks)) {
    LOCKSTEP_CHECK(options.jobs < 2, "[run] --jobs ", options.jobs,
                   ": the processes of a launcher run one case after the other; leave out --jobs");
    options.jobs = 1;
  }
  for (const auto& text : flags.required) options.required.insert(suites::parse_least(text));
  dashboard::check_output(flags.report, options.db, "--report");
  Progress progress{.limit = options.seconds};
  suites::RunListener listener;
  listener.started = [&](const RunOptions& o, const suites::RunPlan& plan, const std::string& id) {
    flags.each_fault = std::find(o.suites.begin(), o.suites.end(), "faults") != o.suites.end();
    if (flags.json) return;
    std::printf(
        "seed %lu\nrun %s: %s, %zu suites, %d jobs, lane %s\n", o.seed, id.c_str(),
        plan.cases == suites::kEndless ? "as many cases as fit" : concat(plan.cases, " cases").c_str(),
        plan.chosen.size(), o.jobs, suites::numerics_of(o).c_str());
    std::fflush(stdout);
  };
  listener.progress = [&](int64_t done, int64_t planned, double seconds) {
    progress.update(done, planned, seconds);
  };
  listener.message = [&](const std::string& text) {
    progress.finish();
    std::fprintf(flags.json ? stderr : stdout, "%s\n", text.c_str());
    std::fflush(stdout);
  };
  auto summary = suites::run(options, listener);
  progress.finish();
  conclude(summary, flags);
  return winning(summary.codes);
}

}  // namespace

void add_run(CLI::App& app, Chosen& chosen) {
  auto [run_app, flags] =
      add_command(app, chosen, "run", "Run generated cases of the suites and record what came out", run);
  auto& o = flags.options;
  o.command = chosen.command_line;
  run_app
      .add_option("--suite", o.suites, "Only these suites (repeat, or separate by commas); see lockstep list")
      ->delimiter(',');
  run_app.add_option("--time", o.seconds, "Claim no case after this many seconds")
      ->check(seconds_above_zero());
  run_app.add_option("--cases", o.cases, "Run the first N cases of the sequence")->check(whole_count());
  run_app.add_option("--seed", o.seed, "Seed of the sequence (default 0)")->check(whole_number());
  run_app.add_option("--jobs", o.jobs, "Worker processes (default: one for each processor)")
      ->check(CLI::Range(0, 256));
  run_app.add_option("--least-rate", o.least_rate,
                     "Cases a second and core; a run that is slower ends with 4 if nothing else is wrong");
  run_app.add_option("--shard", flags.shard, "i/n: run the i-th of n equal parts of the sequence");
  run_app.add_option("--numerics", flags.numerics, "exact (default on the CPU) or fast (on a CUDA device)");
  run_app.add_option(
      "--device", o.device,
      "cpu (default) or cuda: one CUDA device has the tensors of all ranks and of the single device");
  add_world(run_app, o.world, o.ranks);
  run_app.add_option("--chaos", o.chaos,
                     "What happens to a process of --world gloo in each case: "
                     "kill,rank=1,exchange=3,op=all_gather,when=wait; for ci/chaos");
  run_app.add_option("--reduce", flags.reduce,
                     "rank-order (default): fold in rank order; library: as Gloo reduces, in its order");
  run_app.add_flag("--fallback-replicate", o.fallback,
                   "Ops without a sharding rule run whole on every rank, and are counted, instead of being "
                   "refused");
  run_app.add_option("--db", o.db, "Database (default lockstep.db)");
  run_app.add_option("--report", flags.report, "Report (default lockstep-report.html); empty for none");
  run_app.add_option(
      "--require-label", flags.required,
      "NAME=LEAST (repeat): cases must have had this label, or this pair such as aten::mm/S, so "
      "often; the default plan has its own");
  run_app.add_option("--fault", o.fault, "Plant this fault in the engine; see lockstep list --faults");
  run_app.add_option(
      "--engine", o.engine,
      "The engine under test: lockstep (default), lockstep-process, or the command of one that "
      "speaks the wire (suites/engines/WIRE.md)");
  run_app
      .add_option("--baseline", flags.baseline,
                  "Database whose verdicts this run's may not be worse than ($LOCKSTEP_BASELINE; `lockstep "
                  "gate` compares all else)")
      ->envname("LOCKSTEP_BASELINE");
  run_app.add_option("--commit", o.commit,
                     "Commit of the program under test (default: the one this binary was built from)");
  run_app.add_option("--corpus", o.corpus,
                     "Database or text file whose kept cases are replayed first (repeat), beside those of "
                     "--db and the shipped ones");
  run_app.add_flag("!--no-corpus", o.replay_kept, "Replay no kept case");
  run_app.add_option("--hang", o.hang_seconds,
                     "A worker without a sign of life for so many seconds is stopped");
  run_app.add_flag("--fail-fast", o.fail_fast, "Claim no case after the first failure");
  run_app.add_flag("--resume", o.resume, "Complete the newest run of the database that did not finish");
  run_app.add_flag("--json", flags.json, "Print the summary as JSON");
}

}  // namespace lockstep::program
