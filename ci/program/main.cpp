// SPDX-License-Identifier: Apache-2.0
// lockstep: runs suites, replays tokens, shows what the engine does, trains, and reports. Exit codes are in
// engine/values/exit_code.h; only this file turns an error into one.
#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ci/output/output.h"
#include "ci/program/commands.h"
#include "dashboard/store/store.h"
#include "engine/lane/cuda.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "engine/values/shell.h"
#include "engine/world/board.h"
#include "suites/core/no_processes.h"
#include "suites/harness/worker_pool.h"

namespace lockstep::program {
namespace {

struct Ending {
  int code;
  std::string message;
};

int end_with(const Ending& ending, bool json) {
  if (json)
    std::printf("%s\n", nlohmann::json{{"error", ending.message},
                                       {"exit_code", ending.code},
                                       {"exit_codes", {ending.code}},
                                       {"meaning", meaning(ending.code)}}
                            .dump(2)
                            .c_str());
  std::fprintf(stderr, "lockstep: %s\n", ending.message.c_str());
  return ending.code;
}

// Every error that reaches main, by its kind.
Ending ending_of(const std::exception& e) {
  if (dynamic_cast<const suites::NoProcesses*>(&e) != nullptr) return {kSkipped, e.what()};
  if (dynamic_cast<const RankLost*>(&e) != nullptr) return {kDifference, e.what()};
  const bool kernels = dynamic_cast<const KernelError*>(&e) != nullptr;  // of a run that Lockstep made up
  if (dynamic_cast<const Error*>(&e) != nullptr && !kernels) return {kUsage, e.what()};
  if (const auto* store = dynamic_cast<const dashboard::StoreError*>(&e); store != nullptr)
    return {store->kind == dashboard::StoreError::Kind::kOutput ? kUsage : kStoreUnusable, e.what()};
  if (const auto* ended = dynamic_cast<const Ended*>(&e); ended != nullptr) return {ended->code, e.what()};
  const auto* torch = dynamic_cast<const c10::Error*>(&e);
  return {kHarnessError,
          std::string("harness error: ") + (torch != nullptr ? torch->what_without_backtrace() : e.what())};
}

// libtorch warns about edge cases that suites look for on purpose.
struct Quiet : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

int run_chosen(const Chosen& chosen, char** argv) {
  if (chosen.lane) {
    enter_lane(*chosen.lane, argv);
    const auto refused =
        *chosen.lane == Lane::kExact && !suites::called_to_pool() ? slice_probe() : std::string();
    if (!refused.empty())
      return end_with({kSkipped, "the exact lane does not hold on this processor or library: a slice of " +
                                     refused + " is not bitwise the op on the slice; use --numerics fast"},
                      chosen.json);
  }
  if (chosen.on_cuda)
    if (const auto why_not = enter_cuda(); !why_not.empty())
      return end_with({kSkipped, "--device cuda: nothing was run: " + why_not}, chosen.json);
  return chosen.action();
}

// Where a command is missing and a word stands in its place, what to write; otherwise empty.
std::string unknown_command(const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const auto words = at->remaining();
  if (words.empty() || at->get_require_subcommand_min() == 0) return {};
  std::string names;
  for (const auto* command : at->get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    names += (names.empty() ? "" : ", ") + command->get_name();
  return concat("there is no command '", at == &app ? "" : at->get_name() + " ", words.front(),
                "'; there are: ", names);
}

std::string command_line(int argc, char** argv) {
  std::string text = "lockstep";
  for (int i = 1; i < argc; ++i) text += " " + shell_word(argv[i]);
  return text;
}

int main(int argc, char** argv) {
  CLI::App app("Lockstep: does a sharded training program compute, bit by bit, what one device would?",
               "lockstep");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string(output::tool_version()));
  app.footer(
      "Exit codes: 0 all equal or explained; 1 difference, crash or hang; 2 usage, or not available; 3 "
      "harness "
      "error;\n4 slower; 5 not measured; 6 non-determinism only; 7 store unusable; 8 a planted fault or the "
      "canary survived;\n77 skipped. If several apply: 2, 7, 3, 8, 5, 1, 6, 4, 77, 0.");
  Chosen chosen{command_line(argc, argv)};
  for (const auto add :
       {add_run, add_replay, add_worker, add_engine, add_list, add_show, add_report, add_serve, add_merge,
        add_export, add_publish, add_gate, add_bless, add_prune, add_bisect, add_bench, add_init, add_train})
    add(app, chosen);
  FLAGS_caffe2_log_level =
      2;  // errors alone: a step's memory is also freed by threads that counted none of it
  Quiet quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
  try {
    app.parse(argc, argv);
    return run_chosen(chosen, argv);
  } catch (const CLI::RequiredError& e) {
    const auto unknown = unknown_command(app);
    if (!unknown.empty()) return end_with({kUsage, unknown}, false);
    app.exit(e);
    return kUsage;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  } catch (const std::exception& e) {
    return end_with(ending_of(e), chosen.json);
  }
}

}  // namespace
}  // namespace lockstep::program

// A file size limit is an error of the file that hits it, not a signal.
int main(int argc, char** argv) {
  signal(SIGXFSZ, SIG_IGN);
  return lockstep::program::main(argc, argv);
}
