// SPDX-License-Identifier: Apache-2.0
// lockstep prune
#include <cstdio>
#include <string>

#include "ci/program/commands.h"
#include "dashboard/store/prune.h"
#include "dashboard/store/store.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string db;
  dashboard::PruneOptions options;
};

int prune(const Flags& flags) {
  auto store = dashboard::Store::open_writer(flags.db);
  int64_t total = 0;
  for (const auto& p : dashboard::prune(store, flags.options)) {
    std::printf("run %s: %ld of %ld %s cases of suite %s\n", p.run.c_str(), p.cases, p.of, p.verdict.c_str(),
                p.suite.c_str());
    total += p.cases;
  }
  std::printf("%ld cases %s; their counts stay, and so does every failure and one case of each kind\n", total,
              flags.options.dry ? "would go" : "are gone");
  std::string kept;
  for (const auto& [origin, cases] : dashboard::kept_by_origin(store))
    kept += (kept.empty() ? "" : ", ") + std::to_string(cases) + " " + origin;
  std::printf("kept cases, all of which stay: %s\n", kept.empty() ? "none" : kept.c_str());
  return 0;
}

}  // namespace

void add_prune(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  auto* prune_app = app.add_subcommand("prune", "Remove old cases that passed, but not what they say");
  prune_app->add_option("db", flags->db, "Database")->required();
  prune_app
      ->add_option("--older-than", flags->options.older_than_days,
                   "Days before the newest run of the file (default 30)")
      ->check(CLI::Range(0, 100'000));
  prune_app
      ->add_option("--slowest", flags->options.slowest, "Cases of each run and suite to keep (default 20)")
      ->check(CLI::Range(0, 1'000'000));
  prune_app->add_flag("--dry-run", flags->options.dry, "Only say what would go");
  prune_app->callback([&chosen, flags] { chosen.action = [flags] { return prune(*flags); }; });
}

}  // namespace lockstep::program
