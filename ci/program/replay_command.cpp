// SPDX-License-Identifier: Apache-2.0
// lockstep replay TOKEN | --bucket SIGNATURE: judges one case again, in this new process.
#include <SQLiteCpp/SQLiteCpp.h>
#include <c10/util/Exception.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "ci/program/commands.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/spec.h"
#include "oracle/plain/evaluate.h"
#include "oracle/program/options.h"
#include "oracle/program/values.h"
#include "oracle/random/random_simulation.h"
#include "suites/core/by_library.h"
#include "suites/core/hash_log.h"
#include "suites/core/judge.h"
#include "suites/core/most_ranks.h"
#include "suites/core/no_processes.h"
#include "suites/core/spawn.h"
#include "suites/engines/make_engine.h"
#include "suites/faults/chaos.h"
#include "suites/faults/fault.h"
#include "suites/golden/golden.h"
#include "suites/harness/examine.h"
#include "suites/harness/tell.h"
#include "suites/harness/worker_pool.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string token, bucket, db = "lockstep.db", fault, engine = "lockstep", numerics, log_hashes, reduce,
                             world = "local", chaos, device;
  int64_t ranks = 0;
  double hang = 120;
  bool json = false, alone = false, fallback = false;
  // The lane that was asked for, or that the token tells.
  Lane lane() const {
    if (!numerics.empty()) return parse_lane(numerics);
    if (on_cuda()) return Lane::kFast;
    return token.empty() ? Lane::kExact : oracle::parse_token(token).numerics;
  }
  bool on_cuda() const {
    if (!device.empty()) return device == "cuda";
    return !token.empty() && oracle::parse_token(token).mesh.device_type() == c10::kCUDA;
  }
};

std::string token_of_bucket(const Flags& flags) {
  const auto store = dashboard::Store::open_reader(flags.db);
  SQLite::Statement row(store.database(),
                        "SELECT token FROM v_failures WHERE bucket = ? ORDER BY run_id DESC LIMIT 1");
  row.bind(1, flags.bucket);
  LOCKSTEP_CHECK(row.executeStep(), "[replay] ", flags.db, " has no failure in bucket '", flags.bucket,
                 "'; lockstep report lists the buckets");
  return row.getColumn(0).getString();
}

constexpr int64_t kMostElements = int64_t{1} << 28;

void check_size(const oracle::Case& c, size_t i) {
  const auto spec = oracle::spec_of(c, static_cast<int64_t>(i));
  LOCKSTEP_CHECK(spec.numel() <= kMostElements / c.mesh.size(), "[replay] x", i, " of ", spec, " on mesh ",
                 c.mesh, " takes too much memory for one process; use smaller sizes");
}

// A token is text that people edit: what is wrong with it is a mistake of the caller, not of the engine and
// not of the harness. @post the Case can be placed on its mesh, its operators exist, and its program runs on
// one device. Throws Error that names the input or operator; an untrusted case may take its process along
// (memory).
void check_case(const oracle::Case& c) {
  const int64_t ranks = suites::least_world(c.mesh);
  LOCKSTEP_CHECK(ranks <= suites::kMostRanks, "[replay] mesh ", c.mesh, " needs ", ranks,
                 " ranks, and one process hosts them all; use at most ", suites::kMostRanks);
  oracle::validate(c);
  suites::check_case(suites::find_suite(c.suite), c);
  for (size_t i = 0; i < c.program.inputs.size(); ++i) check_size(c, i);
  try {
    oracle::SimulatedSource source;
    oracle::evaluate_recorded(c, source);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {  // libtorch's own, or the standard library's
    const auto* of_libtorch = dynamic_cast<const c10::Error*>(&e);
    throw Error(concat("[replay] the token's program does not run on one device: ",
                       of_libtorch != nullptr ? of_libtorch->what_without_backtrace() : e.what(),
                       "; correct its shapes or arguments"));
  }
}

int exit_code_of(const suites::Suite& suite, const suites::Outcome& outcome) {
  switch (suites::verdict_of(outcome)) {
    case dashboard::Verdict::kDifferent:
    case dashboard::Verdict::kHung:
    case dashboard::Verdict::kCrashed:
      return suite.self_check ? kFaultSurvived : kDifference;
    case dashboard::Verdict::kNondeterministic:
      return kNondeterminism;
    case dashboard::Verdict::kBroken:
      return kHarnessError;
    case dashboard::Verdict::kGaveUp:
      return kNotMeasured;
    default:
      return kAllEqual;
  }
}

std::string answer(const Flags& flags, const oracle::Case& c, const suites::Suite& suite,
                   const suites::Outcome& outcome, int code) {
  if (!flags.json)
    return suites::failure_text(
        {&suite, -1}, c, outcome,
        suites::replay_flags(flags.fault, flags.engine, flags.world, flags.ranks, flags.chaos));
  const auto* failure = std::get_if<suites::Failed>(&outcome);
  return nlohmann::json{{"suite", c.suite},
                        {"verdict", dashboard::name(suites::verdict_of(outcome))},
                        {"bucket", failure ? failure->bucket : ""},
                        {"explanation", suites::explanation_of(outcome)},
                        {"program", oracle::describe(c)},
                        {"exit_code", code},
                        {"exit_codes", {code}}}
      .dump(2);
}

// Runs the program once more, for its digests alone. A program that does not run has none: code 5.
void log_hashes(const std::string& path, const oracle::Case& c, suites::EngineUnderTest& engine) {
  Timeline timeline;
  try {
    timeline = engine.run(c, true).timeline;
  } catch (const std::exception& e) {
    throw suites::WorkerExit{kNotMeasured, concat("nothing to log, the program does not run: ", e.what())};
  }
  try {
    suites::HashLog log(path);
    log.write(0, timeline);
    log.close();
  } catch (const Error& e) {
    throw suites::WorkerExit{kUsage, e.what()};
  }
}

// What the worker says: its answer, which this begins, or why there is none.
constexpr std::string_view kAnswer = "answer:";
struct Said {
  std::optional<std::string> answer;
  std::string other;
  void operator()(const std::string& text) {
    if (text.starts_with(kAnswer))
      answer = text.substr(kAnswer.size());
    else
      other += (other.empty() ? "" : "\n") + text;
  }
};

// An answer goes to the standard output; without one, main tells the error as it tells any other.
int conclude(const Said& said, int code) {
  if (!said.answer)
    throw Ended(code == 0 ? kNotMeasured : code,
                said.other.empty() ? "[replay] interrupted before there was a verdict" : said.other);
  if (!said.other.empty()) std::fprintf(stderr, "%s\n", said.other.c_str());
  std::printf("%s\n", said.answer->c_str());
  return code;
}

// The case that was asked for, if it can be judged as the flags say.
oracle::Case case_of(const Flags& flags) {
  LOCKSTEP_CHECK(flags.token.empty() != flags.bucket.empty(),
                 "[replay] give a token, or --bucket with a signature");
  auto c = oracle::parse_token(flags.bucket.empty() ? flags.token : token_of_bucket(flags));
  const Lane lane = flags.lane();
  LOCKSTEP_CHECK(c.numerics == lane || !flags.numerics.empty() || flags.on_cuda(),
                 "[replay] the case is of the fast lane; add --numerics fast");
  c.numerics = lane;
  const auto on = c.mesh.device_type();
  LOCKSTEP_CHECK(on != c10::kMeta,
                 "[replay] nothing has values on meta; write the case's mesh without @meta");
  LOCKSTEP_CHECK(on == c10::kCPU || flags.on_cuda() || !flags.device.empty(),
                 "[replay] the case is on a CUDA device; add --device cuda");
  const std::string device = !flags.device.empty() ? flags.device : flags.on_cuda() ? "cuda" : "cpu";
  check_device("replay", device, lane, flags.world, flags.engine, flags.fault);
  c.mesh = c.mesh.on(parse_device_type(device));
  suites::find_suite(c.suite);
  check_world("replay", flags.world, flags.ranks, flags.engine, flags.fault, {c.suite});
  LOCKSTEP_CHECK(flags.chaos.empty() || flags.world == "gloo",
                 "[replay] --chaos happens to processes of --world gloo; add it");
  if (!flags.chaos.empty()) suites::parse_chaos(flags.chaos);
  if (!flags.reduce.empty()) c.options.erase("reduce");
  if (!flags.reduce.empty() && parse_reduce("replay", flags.reduce)) suites::make_by_library(c);
  if (flags.fallback) oracle::allow_fallback(c);
  if (suites::is_by_library(c)) check_library("replay", flags.world, flags.engine, device, {c.suite});
  if (!flags.fault.empty()) suites::find_fault(flags.fault);
  LOCKSTEP_CHECK(flags.fault.empty() || flags.engine == "lockstep", "[replay] no fault can be planted in ",
                 flags.engine, "; leave --engine or --fault out");
  if (c.suite == "golden") suites::golden_folder();
  return c;
}

suites::EnginePtr engine_of(const Flags& flags) {
  if (!flags.fault.empty()) return suites::find_fault(flags.fault).plant();
  return suites::make_engine(flags.engine, {.world = flags.world,
                                            .device = flags.on_cuda() ? c10::kCUDA : c10::kCPU,
                                            .ranks = flags.ranks,
                                            .chaos = flags.chaos,
                                            .seconds = flags.hang});
}

[[noreturn]] void work(const Flags& flags, const oracle::Case& c) {
  const auto& suite = suites::find_suite(c.suite);
  suites::PoolWork work;
  work.begin = [](int, bool) {};
  work.run = [&](int64_t) {
    try {
      check_case(c);
    } catch (const oracle::NoKernel& e) {
      throw suites::WorkerExit{kNotMeasured, e.what()};
    } catch (const Error& e) {
      throw suites::WorkerExit{kUsage, e.what()};
    }
    const auto engine = [&] {
      try {
        return engine_of(flags);
      } catch (const suites::NoProcesses& e) {
        throw suites::WorkerExit{kSkipped, e.what()};
      }
    }();
    if (!flags.log_hashes.empty()) log_hashes(flags.log_hashes, c, *engine);
    const auto outcome = suites::judge_and_repeat(suite, c, *engine);
    const int code = exit_code_of(suite, outcome);
    throw suites::WorkerExit{code, concat(kAnswer, answer(flags, c, suite, outcome, code))};
  };
  work.lost = [&](const suites::Lost& lost) {
    const auto outcome = suites::lost_outcome(c, lost);
    throw suites::WorkerExit{kDifference, concat(kAnswer, answer(flags, c, suite, outcome, kDifference))};
  };
  work.save = [] {};
  suites::join_pool();
  suites::work_in_pool(work);
}

// In a worker process, the same command once more, so that a case that crashes or hangs is told like any
// other.
int replay(const Flags& flags) {
  const auto c = case_of(flags);
  if (suites::called_to_pool()) work(flags, c);
  if (const auto code = take_part(flags.world, flags.ranks, flags.hang)) return *code;
  if (flags.alone) {
    suites::judge_safely(suites::find_suite(c.suite), c, *engine_of(flags));
    std::_Exit(0);
  }
  Said said;
  const suites::PoolListener listener{[](int64_t, double) {}, [&](const std::string& text) { said(text); }};
  const int code = suites::run_pool({1, 1, 0, flags.hang}, suites::this_command(), "", listener).worker_code;
  return conclude(said, code);
}

}  // namespace

void add_replay(CLI::App& app, Chosen& chosen) {
  auto [replay_app, flags] =
      add_command(app, chosen, "replay", "Judge one case again from its token", replay);
  replay_app.add_option("token", flags.token, "Token, as a failure printed it (quote it)");
  replay_app.add_option("--bucket", flags.bucket, "The minimal case of this bucket in the database instead");
  replay_app.add_option("--db", flags.db, "Database (default lockstep.db)");
  replay_app.add_option("--fault", flags.fault, "Plant this fault in the engine");
  replay_app.add_option("--engine", flags.engine, "The engine under test, as for lockstep run");
  add_world(replay_app, flags.world, flags.ranks);
  replay_app.add_option("--chaos", flags.chaos,
                        "What happens to a process of --world gloo, as for lockstep run");
  replay_app.add_option("--log-hashes", flags.log_hashes,
                        "Write the digests of every op on every rank (JSONL) for curves import --hashes");
  replay_app.add_option("--numerics", flags.numerics, "exact or fast (default: what the token says)");
  replay_app.add_option("--device", flags.device, "cpu or cuda (default: what the token says)");
  replay_app.add_option("--reduce", flags.reduce,
                        "rank-order, or library: as Gloo reduces (default: what the token says)");
  replay_app.add_flag("--fallback-replicate", flags.fallback,
                      "Ops without a sharding rule run whole on every rank, as for lockstep run");
  replay_app.add_option("--hang", flags.hang, "As for lockstep run")->check(CLI::PositiveNumber);
  replay_app.add_flag("--json", flags.json, "Print JSON");
  replay_app.add_flag("--alone", flags.alone, "Only judge, in this process: it ends with 0 if it lives")
      ->group("");
}

}  // namespace lockstep::program
