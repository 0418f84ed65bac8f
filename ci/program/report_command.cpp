// SPDX-License-Identifier: Apache-2.0
// lockstep report, lockstep merge
#include <cstdio>

#include "ci/program/commands.h"
#include "dashboard/report/report.h"
#include "dashboard/store/merge.h"
#include "dashboard/store/output_file.h"

namespace lockstep::program {

void add_report(CLI::App& app, Chosen& chosen) {
  struct Flags {
    std::string db, output = "lockstep-report.html";
  };
  auto flags = std::make_shared<Flags>();
  auto* report =
      app.add_subcommand("report", "Write the report of a database: one HTML page that opens from disk");
  report->add_option("db", flags->db, "Database")->required();
  report->add_option("-o,--output", flags->output, "Page (default lockstep-report.html)");
  report->callback([&chosen, flags] {
    chosen.action = [flags] {
      dashboard::check_output(flags->output, flags->db, "-o");
      dashboard::write_report(dashboard::Store::open_reader(flags->db), flags->output, "-o");
      std::printf("%s\n", flags->output.c_str());
      return 0;
    };
  });
}

void add_merge(CLI::App& app, Chosen& chosen) {
  struct Flags {
    std::string into;
    std::vector<std::string> from;
  };
  auto flags = std::make_shared<Flags>();
  auto* merge = app.add_subcommand("merge", "Join databases by content; merging one twice changes nothing");
  merge->add_option("into", flags->into, "Database that takes the rows; created if missing")->required();
  merge->add_option("from", flags->from, "Databases to read")->required();
  merge->callback([&chosen, flags] {
    chosen.action = [flags] {
      const auto result = dashboard::merge_files(flags->into, flags->from);
      std::printf("%ld cases added, %ld known, %ld not deterministic\n", result.cases_added,
                  result.cases_known, result.nondeterministic);
      return result.nondeterministic > 0 ? 6 : 0;
    };
  });
}

}  // namespace lockstep::program
