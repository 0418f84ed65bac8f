// SPDX-License-Identifier: Apache-2.0
// lockstep report, lockstep merge, lockstep prune
#include <cstdio>

#include "ci/program/commands.h"
#include "dashboard/report/report.h"
#include "dashboard/store/merge.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/prune.h"
#include "dashboard/store/store.h"

namespace lockstep::program {
namespace {

struct ReportFlags {
  std::string db, output = "lockstep-report.html";
};

int report(const ReportFlags& flags) {
  dashboard::check_output(flags.output, flags.db, "-o");
  dashboard::write_report(dashboard::Store::open_reader(flags.db), flags.output, "-o");
  std::printf("%s\n", flags.output.c_str());
  return 0;
}

struct MergeFlags {
  std::string into;
  std::vector<std::string> from;
};

int merge(const MergeFlags& flags) {
  const auto result = dashboard::merge_files(flags.into, flags.from);
  std::printf("%ld cases added, %ld known, %ld not deterministic\n", result.cases_added, result.cases_known,
              result.nondeterministic);
  return result.nondeterministic > 0 ? 6 : 0;
}

struct PruneFlags {
  std::string db;
  dashboard::PruneOptions options;
};

int prune(const PruneFlags& flags) {
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

void add_report(CLI::App& app, Chosen& chosen) {
  auto [command, flags] = add_command(
      app, chosen, "report", "Write the report of a database: one HTML page that opens from disk", report);
  command.add_option("db", flags.db, "Database")->required();
  command.add_option("-o,--output", flags.output, "Page (default lockstep-report.html)");
}

void add_merge(CLI::App& app, Chosen& chosen) {
  auto [command, flags] = add_command(app, chosen, "merge",
                                      "Join databases by content; merging one twice changes nothing", merge);
  command.add_option("into", flags.into, "Database that takes the rows; created if missing")->required();
  command.add_option("from", flags.from, "Databases to read")->required();
}

void add_prune(CLI::App& app, Chosen& chosen) {
  auto [prune_app, flags] =
      add_command(app, chosen, "prune", "Remove old cases that passed, but not what they say", prune);
  prune_app.add_option("db", flags.db, "Database")->required();
  prune_app
      .add_option("--older-than", flags.options.older_than_days,
                  "Days before the newest run of the file (default 30)")
      ->check(CLI::Range(0, 100'000));
  prune_app
      .add_option("--slowest", flags.options.slowest, "Cases of each run and suite to keep (default 20)")
      ->check(CLI::Range(0, 1'000'000));
  prune_app.add_flag("--dry-run", flags.options.dry, "Only say what would go");
}

}  // namespace lockstep::program
