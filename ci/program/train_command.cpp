// SPDX-License-Identifier: Apache-2.0
// lockstep train, lockstep curves
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "ci/program/commands.h"
#include "ci/program/numbers.h"
#include "dashboard/report/report.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "engine/debug/breakpoint.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "suites/core/hash_log.h"
#include "suites/harness/environment.h"
#include "suites/train/curves.h"
#include "suites/train/saved_run.h"
#include "suites/train/text.h"

namespace lockstep::program {
namespace {

using suites::kMeshDims;
using suites::TrainOptions;
using suites::TrainStep;

struct Flags {
  TrainOptions train;
  std::string data, mesh, dtype = "f32", param_dtype, reduce_dtype, optimizer = "adamw";
  std::string without = "nothing";
  std::string policy = "single-device", numerics, device = "cpu", device_model;
  std::string db = "lockstep.db", report, log_hashes;
  bool no_baselines = false, judge_all = false;
  int64_t jobs = 0, ranks = 0, hang = 600;
  std::string command, world = "local";
  // What must hold before another lane, or another process, begins.
  void check(const char* name) const {
    check_world(name, world, ranks);
    check_device(name, device, chosen_lane(), world, "lockstep", "");
    if (world == "local") return;
    LOCKSTEP_CHECK(!mesh.empty(), "[", name, "] --world ", world,
                   " without --mesh: one device has no ranks; write for example --mesh tp:2");
    LOCKSTEP_CHECK(log_hashes.empty(), "[", name,
                   "] --log-hashes is written in the local world only; leave out --world");
    LOCKSTEP_CHECK(jobs < 2 || world != "gloo", "[", name, "] --jobs ", jobs,
                   ": the processes of --world gloo train one after the other; leave out --jobs");
  }
  bool on_cuda() const { return device == "cuda"; }
  Lane chosen_lane() const { return parse_lane(numerics, device); }
  // As the store has it.
  std::string numerics_text() const {
    return concat(chosen_lane() == Lane::kExact ? "exact" : "fast", on_cuda() ? " --device cuda" : "");
  }
  Lane lane() const {
    check("train");
    return chosen_lane();
  }
};
struct CurvesFlags : Flags {
  CLI::Option* model = nullptr;  // as it was given, or not
  Lane lane() const {
    if (model->count() == 0) throw CLI::RequiredError("model");
    LOCKSTEP_CHECK(!mesh.empty(),
                   "[curves] --mesh is required: the meshes to compare with one device; write for example "
                   "--mesh tp:1,tp:2,tp:4,tp:8");
    LOCKSTEP_CHECK(!on_cuda() || jobs < 2, "[curves] --jobs ", jobs,
                   ": curves on a CUDA device are trained one after the other; leave out --jobs");
    check("curves");
    return chosen_lane();
  }
};

TrainOptions options_of(const Flags& flags) {
  auto options = flags.train;
  options.numerics = flags.chosen_lane();
  options.on = parse_device_type(flags.device);
  options.dtype = parse_dtype(flags.dtype);
  if (!flags.param_dtype.empty()) options.precision.param_dtype = parse_dtype(flags.param_dtype);
  if (!flags.reduce_dtype.empty()) options.precision.reduce_dtype = parse_dtype(flags.reduce_dtype);
  options.optimizer = suites::parse_optimizer(flags.optimizer);
  options.without = suites::parse_without(flags.without);
  if (!flags.device_model.empty()) options.device = parse_device_model(flags.device_model);
  return options;
}

DeviceMesh mesh_on(const std::string& text, c10::DeviceType device) {
  const auto mesh = parse_mesh(text);
  LOCKSTEP_CHECK(mesh.device_type() == c10::kCPU || mesh.device_type() == device, "[train] the mesh ", text,
                 " is on another device than --device says; write it without @, and --device cuda");
  return mesh.on(device);
}

std::string text_of(const Flags& flags, const TrainOptions& options) {
  return suites::read_text(flags.data, static_cast<size_t>(options.sequence) + 1);
}

void print_step(const char* name, const TrainStep& s) {
  std::printf("%s step %ld loss %.8f (%016lx) norm %.8f (%016lx) %.0f tokens/s\n", name, s.step, s.loss,
              s.loss_bits, s.norm, s.norm_bits, s.tokens_per_second);
  std::fflush(stdout);
}

// Ctrl-C, and the signal of schedulers: once the step is done the training is saved, and ends. A second one
// ends it at once.
volatile std::sig_atomic_t asked_to_stop = 0;
void stop_after_this_step() {
  struct sigaction act = {};
  act.sa_handler = [](int) { asked_to_stop = 1; };
  act.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction was = {};
    sigaction(signal, nullptr, &was);
    if (was.sa_handler != SIG_IGN) sigaction(signal, &act, nullptr);
  }
}

void print_resumed(const TrainOptions& options, std::string_view text) {
  const auto saved = dcp::contents(options.resume).metadata;
  for (const auto& other : suites::resumed_otherwise(options, text, saved))
    std::printf("resumed with %s: further steps are not those of the training that was saved\n",
                other.c_str());
}

// What a training that did not do all its steps says of it.
void print_end(const Flags& flags, const TrainStep& last) {
  if (!suites::finite(last))
    std::fprintf(
        stderr,
        "lockstep: [train] step %ld has loss %g and gradient norm %g: it trains no further; choose a "
        "smaller --lr or another --dtype\n",
        last.step, last.loss, last.norm);
  else if (last.step < flags.train.steps)
    std::printf("interrupted after step %ld; --resume %s goes on\n", last.step, flags.train.save.c_str());
}

// The steps; none where `quit` was said at a breakpoint.
std::vector<TrainStep> trained(const suites::Team& team, const TrainOptions& options, std::string_view text,
                               const suites::TrainObserver& observer = {}) {
  try {
    return suites::train(team, options, text, observer);
  } catch (const QuitAtBreakpoint& quit) {
    std::fprintf(stderr, "lockstep: %s\n", quit.what());
    return {};
  }
}

int train(const Flags& flags) {
  auto options = options_of(flags);
  if (!flags.mesh.empty()) options.mesh = mesh_on(flags.mesh, options.on);
  options.init = options.drop = parse_random_policy(flags.policy);
  LOCKSTEP_CHECK(!options.statically || options.mesh,
                 "[train] --static without --mesh: one device is plain libtorch; write --mesh tp:1");
  suites::check_options(options);
  const auto text = text_of(flags, options);
  const auto team = suites::make_team(flags.world, flags.ranks, std::chrono::seconds(flags.hang));
  if (!options.save.empty()) {
    stop_after_this_step();
    options.asked_to_stop = [] { return asked_to_stop != 0; };
  }
  if (!team.leads) return trained(team, options, text), kAllEqual;
  dashboard::check_output(options.trace, flags.db, "--trace");
  LOCKSTEP_CHECK(options.trace.empty() || options.trace != flags.log_hashes,
                 "[train] --trace and --log-hashes are both ", options.trace, "; name two files");
  if (!options.resume.empty()) print_resumed(options, text);
  suites::TrainObserver observer;
  std::optional<suites::HashLog> hashes;
  if (!flags.log_hashes.empty()) {
    LOCKSTEP_CHECK(options.mesh,
                   "[train] --log-hashes without --mesh: one device is plain libtorch, which logs nothing; "
                   "write --mesh tp:1");
    hashes.emplace(flags.log_hashes);
    observer.on_timeline = [&](int64_t step, const Timeline& timeline) { hashes->write(step, timeline); };
  }
  auto store = dashboard::Store::open_writer(flags.db);
  dashboard::Recorder recorder(
      store, suites::run_without_plan(flags.command, flags.numerics_text(), options.seed), "train");
  std::printf("seed %lu\n", options.seed);
  std::fflush(stdout);
  observer.on_step = [&](const TrainStep& step) {
    print_step("train", step);
    suites::record_step(options, flags.numerics_text(), step, std::nullopt, recorder);
  };
  observer.on_save = [&](const TrainStep& step) {
    std::printf("saved step %ld in %s\n", step.step, options.save.c_str());
    std::fflush(stdout);
  };
  observer.goes_on = suites::finite;
  const auto steps = trained(team, options, text, observer);
  if (hashes) hashes->close();
  if (steps.empty()) {
    recorder.finish("interrupted", kNotMeasured);
    return kNotMeasured;
  }
  const auto& last = steps.back();
  const bool is_done = last.step == options.steps;
  const int code = !suites::finite(last) ? kDifference : is_done ? kAllEqual : kNotMeasured;
  recorder.finish(code == kNotMeasured ? "interrupted" : "finished", code);
  print_end(flags, last);
  return code;
}

// "tp:1,tp:2,dp:2,tp:2": a mesh begins where a name is not one that stands within the one before, and with
// each line, of which every --mesh is one.
std::vector<DeviceMesh> parse_meshes(const std::string& text, c10::DeviceType device) {
  std::vector<std::string> meshes;
  std::string line, part;
  std::istringstream lines(text);
  while (std::getline(lines, line)) {
    auto outer = kMeshDims.end();
    std::istringstream parts(line);
    while (std::getline(parts, part, ',')) {
      const auto dim = std::find(kMeshDims.begin(), kMeshDims.end(), part.substr(0, part.find(':')));
      if (dim <= outer) meshes.emplace_back();
      outer = dim;
      meshes.back() += (meshes.back().empty() ? "" : ",") + part;
    }
  }
  std::vector<DeviceMesh> parsed;
  for (const auto& mesh : meshes) parsed.push_back(mesh_on(mesh, device));
  LOCKSTEP_CHECK(!parsed.empty(), "[curves] --mesh names no mesh; write for example tp:1,tp:2,dp:2,tp:2");
  return parsed;
}

int curves(const CurvesFlags& flags) {
  suites::CurvesOptions options;
  options.train = options_of(flags);
  options.meshes = parse_meshes(flags.mesh, options.train.on);
  options.baselines = !flags.no_baselines;
  options.judges_all = flags.judge_all;
  options.team = suites::make_team(flags.world, flags.ranks, std::chrono::seconds(flags.hang));
  options.jobs = options.team.in_turn || flags.on_cuda() ? 1
                 : flags.jobs > 0                        ? flags.jobs
                                                         : suites::processors();
  for (const auto& mesh : options.meshes) {
    auto one = options.train;
    one.mesh = mesh;
    suites::check_options(one);
  }
  const auto text = text_of(flags, options.train);
  if (!options.team.leads) return suites::curves(options, text), kAllEqual;
  dashboard::check_output(flags.report, flags.db, "--report");
  auto store = dashboard::Store::open_writer(flags.db);
  const auto run = suites::run_without_plan(flags.command, flags.numerics_text(), flags.train.seed);
  dashboard::Recorder recorder(store, run, "curves");
  std::printf("seed %lu\n", options.train.seed);
  std::fflush(stdout);
  suites::CurvesObserver observer;
  observer.on_step = [&](const TrainOptions& one, const TrainStep& step) {
    if (step.step % 50 == 0 || step.step == 1 || step.step == options.train.steps)
      print_step(suites::run_name(one).c_str(), step);
    suites::record_step(one, flags.numerics_text(), step, std::nullopt, recorder);
  };
  observer.on_judgement = [&](const TrainOptions& one, const TrainStep& step,
                              const suites::StepJudgement& judgement) {
    suites::record_step(one, flags.numerics_text(), step, judgement.verdict, recorder);
  };
  std::map<std::string, suites::HashLog> hashes;  // a file for each curve, named like it
  if (!flags.log_hashes.empty()) {
    std::error_code failed;
    std::filesystem::create_directories(flags.log_hashes, failed);
    LOCKSTEP_CHECK(!failed, "[curves] --log-hashes ", flags.log_hashes, ": ", failed.message(),
                   "; name a folder that can be made");
    observer.on_timeline = [&](const TrainOptions& one, int64_t step, const Timeline& timeline) {
      auto name = suites::run_name(one);
      for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
      hashes.try_emplace(name, concat(flags.log_hashes, "/", name, ".jsonl"))
          .first->second.write(step, timeline);
    };
  }
  const auto result = suites::curves(options, text, observer);
  for (auto& [curve, log] : hashes) log.close();
  for (const auto& gate : result.gates)
    recorder.record(dashboard::Gate{gate.rule, gate.required, gate.got, gate.passed});
  const int code = result.passed() ? kAllEqual : kDifference;
  recorder.finish("finished", code);
  std::printf("\n%s\n", suites::markdown_table(options, result).c_str());
  for (const auto& gate : result.gates)
    if (!gate.passed)
      std::printf("not met: %s: required %s, got %s\n", gate.rule.c_str(), gate.required.c_str(),
                  gate.got.c_str());
  if (!flags.report.empty()) dashboard::write_report(store, flags.report);
  return code;
}

void add_common(CLI::App& app, Chosen& chosen, Flags& flags) {
  flags.command = chosen.command_line;
  auto& t = flags.train;
  app.add_option("model", t.model, "Model: llama, mixtral or gpt2");
  app.add_option("--preset", t.preset,
                 "tiny (default) or odd; of llama wide, of mixtral gpt-oss, of gpt2 124m, too");
  app.add_option("--data", flags.data, "Text to train on (default: the one that ships)");
  app.add_option("--steps", t.steps, "Steps (default 200)")->check(CLI::Range(1, 1'000'000));
  app.add_option("--batch", t.batch, "Examples of a step, of all data-parallel ranks together (default 8)");
  app.add_option("--sequence", t.sequence, "Tokens of an example (default 128)");
  app.add_option("--dropout", t.dropout, "Probability to drop (default 0.1)")->check(CLI::Range(0.0, 1.0));
  app.add_option("--optimizer", flags.optimizer,
                 "adamw (default), adamw-fused, sgd, sgd-fused, adamw-8bit or muon");
  app.add_option(
      "--without", flags.without,
      "nothing (default), dbuffer, planning or overlap: what a training on a mesh is to do without, to see "
      "what it is worth");
  app.add_flag("--static", t.statically,
               "Run what does the same there on each rank's plain tensors, once a step has been seen");
  app.add_option("--lr", t.lr, "Learning rate (default 1e-3), at least 0");
  app.add_option("--seed", t.seed, "Seed (default 0)")->check(whole_number());
  app.add_option("--dtype", flags.dtype, "f32 (default), f64, bf16 or f16");
  app.add_option("--param-dtype", flags.param_dtype,
                 "fully_shard's MixedPrecisionPolicy, of meshes with fsdp and of one device: of gathered "
                 "parameters (default --dtype)");
  app.add_option("--reduce-dtype", flags.reduce_dtype,
                 "Likewise: in which gradients are added up (default --param-dtype)");
  app.add_option(
      "--device", flags.device,
      "cpu (default) or cuda: one CUDA device has the tensors of all ranks and of the single device");
  app.add_option("--device-model", flags.device_model,
                 "Multiprocessors x threads of each (default 132x2048)");
  app.add_option("--numerics", flags.numerics, "exact (default on the CPU) or fast (on a CUDA device)");
  add_world(app, flags.world, flags.ranks);
  add_hang(app, flags.hang);
  app.add_option("--db", flags.db, "Database (default lockstep.db)");
}

// Refuses "", which would be taken for nothing given.
CLI::Validator names_a(const char* what) {
  return {[what](const std::string& text) { return text.empty() ? concat("it names no ", what) : ""; }, ""};
}

}  // namespace

void add_train(CLI::App& app, Chosen& chosen) {
  auto [train_app, flags] = add_command(
      app, chosen, "train", "Train a small model on a mesh, or on one device without --mesh", train);
  add_common(train_app, chosen, flags);
  train_app.get_option("model")->required();
  train_app.add_option("--mesh", flags.mesh, "For example tp:4 or dp:2,tp:2");
  train_app
      .add_option("--save", flags.train.save,
                  "Folder: leave a checkpoint there at the end, and at Ctrl-C (lockstep show shards)")
      ->check(names_a("folder"));
  train_app.add_option("--save-every", flags.train.save_every, "Steps: and each time after so many")
      ->check(CLI::Range(1, 1'000'000))
      ->needs("--save");
  train_app
      .add_option("--resume", flags.train.resume,
                  "Folder of a checkpoint: go on from there, on any mesh; --steps counts from the first")
      ->check(names_a("folder"));
  train_app.add_option("--policy", flags.policy,
                       "single-device (default), indexed, per-rank-seeds or offset-based");
  train_app
      .add_option("--trace", flags.train.trace,
                  "File: what the engine does in the first steps, and why, for ui.perfetto.dev (JSON)")
      ->check(names_a("file"));
  train_app.add_option("--trace-steps", flags.train.trace_steps, "So many of them (default 3)")
      ->check(CLI::Range(1, 1'000'000))
      ->needs("--trace");
  train_app
      .add_option(
          "--break-at", flags.train.break_at,
          "Path of a module, for example layers.0.mlp: all ranks stop before each of its calls, and commands "
          "on standard input show tensors, what ranks hold of them, and layouts (help lists them)")
      ->check(names_a("module"));
  train_app.add_option("--log-hashes", flags.log_hashes,
                       "Write the digests of every op of every step on every rank (JSONL) for curves import "
                       "--hashes; step 0 draws the first values");

  auto [curves_app, asked] =
      add_command(app, chosen, "curves",
                  "Train on several meshes and policies; compare every step with one device", curves);
  add_common(curves_app, chosen, asked);
  asked.model = curves_app.get_option("model");
  curves_app
      .add_option("--mesh", asked.mesh,
                  "Meshes, for example tp:1,tp:2,tp:4,tp:8,dp:2,tp:2; or several times, for each its own")
      ->join();
  curves_app.add_flag("--no-baselines", asked.no_baselines,
                      "Only the single device's random stream, no other policy");
  curves_app.add_flag(
      "--judge-all", asked.judge_all,
      "Judge every step op by op, not only steps 1 to 3, every 50th and the first that differs");
  curves_app.add_option("--jobs", asked.jobs, "Runs at a time (default: one for each processor)")
      ->check(CLI::Range(0, 256));
  curves_app.add_option("--log-hashes", asked.log_hashes,
                        "Folder: write such a log of digests (lockstep train --help) for each curve");
  curves_app.add_option("--report", asked.report, "Report to write (default none)");
  add_import(curves_app, chosen);
}

}  // namespace lockstep::program
