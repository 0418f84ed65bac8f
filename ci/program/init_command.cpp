// SPDX-License-Identifier: Apache-2.0
// lockstep init
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "ci/program/commands.h"
#include "ci/program/numbers.h"
#include "dashboard/report/report.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/recorder.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/text.h"
#include "suites/harness/environment.h"
#include "suites/train/initialisation.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string model, preset = "tiny", mesh, policies = "indexed,per-rank-seeds,offset-based";
  std::string dtype = "f32", device, db = "lockstep.db", report;
  uint64_t seed = 0;
  std::string world = "local";
  int64_t ranks = 0, hang = 600;
  bool json = false;
  std::string command;
};

suites::InitOptions options_of(const Flags& flags) {
  suites::InitOptions options;
  options.model = flags.model;
  options.preset = flags.preset;
  options.dtype = parse_dtype(flags.dtype);
  options.seed = flags.seed;
  if (!flags.device.empty()) options.device = parse_device_model(flags.device);
  options.mesh = parse_mesh(flags.mesh);
  std::istringstream names(flags.policies == "none" ? "" : flags.policies);
  for (std::string one; std::getline(names, one, ',');) options.policies.push_back(parse_random_policy(one));
  return options;
}

double megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

void print_rank(const suites::InitRank& r) {
  std::printf("rank %ld alone: %.1f MB, at most %.1f MB at once, %.1f s, %s\n", r.rank, megabytes(r.bytes),
              megabytes(r.peak_bytes), r.seconds,
              r.different.empty()
                  ? "every parameter is the single device's part"
                  : concat(r.different.size(), " parameters differ, first ", r.different[0]).c_str());
  std::fflush(stdout);
}

nlohmann::json json_of(const suites::InitReport& report) {
  nlohmann::json result{{"parameters", report.parameters}, {"drawn", report.drawn}};
  const auto add = [&](const suites::InitStatistics& s) {
    result["policies"].push_back({{"policy", s.policy},
                                  {"elements", s.elements},
                                  {"different", s.different},
                                  {"largest_difference", s.largest},
                                  {"mean", s.mean},
                                  {"deviation", s.deviation},
                                  {"shards", s.shards},
                                  {"repeated_shards", s.repeated}});
  };
  add(report.reference);
  for (const auto& s : report.policies) add(s);
  for (const auto& r : report.ranks)
    result["ranks"].push_back({{"rank", r.rank},
                               {"bytes", r.bytes},
                               {"buffer_bytes", r.buffer_bytes},
                               {"peak_bytes", r.peak_bytes},
                               {"seconds", r.seconds},
                               {"different", r.different}});
  return result;
}

int init(const Flags& flags) {
  check_world("init", flags.world, flags.ranks);
  auto options = options_of(flags);
  options.team = suites::make_team(flags.world, flags.ranks, std::chrono::seconds(flags.hang));
  if (!options.team.leads) return suites::initialise(options), kAllEqual;
  dashboard::check_output(flags.report, flags.db, "--report");
  auto store = dashboard::Store::open_writer(flags.db);
  dashboard::Recorder recorder(store, suites::run_without_plan(flags.command, "exact", flags.seed), "init");
  suites::InitObserver observer;
  if (!flags.json) {
    std::printf("seed %lu, device model %s\n", options.seed, to_string(options.device).c_str());
    observer.on_rank = print_rank;
  }
  const auto report = suites::initialise(options, observer);
  suites::record(options, report, recorder);
  const int code = report.passed() ? kAllEqual : kDifference;
  recorder.finish("finished", code);
  if (flags.json)
    std::printf("%s\n", json_of(report).dump(2).c_str());
  else
    std::printf("%ld parameters, %ld of them random\n\n%s\n", report.parameters, report.drawn,
                suites::markdown_table(report).c_str());
  if (!flags.report.empty()) dashboard::write_report(store, flags.report);
  return code;
}

}  // namespace

void add_init(CLI::App& app, Chosen& chosen) {
  auto [init_app, flags] = add_command(
      app, chosen, "init",
      "Draw a model's parameters in their shards under each policy; compare with one device", init);
  flags.command = chosen.command_line;
  init_app.add_option("model", flags.model, "Model: llama, mixtral or gpt2")->required();
  init_app.add_option("--preset", flags.preset,
                      "tiny (default) or odd; of llama wide and 8b, of mixtral gpt-oss, of gpt2 124m, too");
  init_app.add_option("--mesh", flags.mesh, "For example tp:8, dp:2,tp:4 or fsdp:4")->required();
  init_app.add_option(
      "--policies", flags.policies,
      "Beside the single device's: indexed, per-rank-seeds, offset-based (default: all), or none");
  init_app.add_option("--seed", flags.seed, "Seed (default 0)")->check(whole_number());
  init_app.add_option("--dtype", flags.dtype, "f32 (default), f64, f16 or bf16");
  init_app.add_option("--device-model", flags.device, "Multiprocessors x threads of each (default 132x2048)");
  add_world(init_app, flags.world, flags.ranks);
  add_hang(init_app, flags.hang);
  init_app.add_option("--db", flags.db, "Database (default lockstep.db)");
  init_app.add_option("--report", flags.report, "Report to write (default none)");
  init_app.add_flag("--json", flags.json, "One JSON object");
}

}  // namespace lockstep::program
