// SPDX-License-Identifier: Apache-2.0
// lockstep bench: measures this binary, alone or in turns with a baseline, and writes every sample.
#include <cstdio>
#include <iostream>

#include "ci/program/bench_run.h"
#include "ci/program/commands.h"
#include "engine/values/exit_code.h"
#include "suites/bench/body.h"
#include "suites/bench/serve.h"

namespace lockstep::program {
namespace {

struct Flags {
  BenchOptions options;
  bool json = false, serve = false, list = false;
  std::optional<Lane> lane() const { return list ? std::nullopt : std::optional(Lane::kExact); }
};

int run(const Flags& flags) {
  if (flags.serve) suites::serve(suites::bodies(), std::cin, std::cout);
  if (flags.serve) return kAllEqual;
  if (flags.list) {
    for (const auto& [s, prepare] : suites::bodies())
      std::printf("%-12s %-8s %-4s %s\n", s.area.c_str(), s.counted ? "counted" : "timed", s.unit.c_str(),
                  s.name.c_str());
    return kAllEqual;
  }
  try {
    const auto result = bench(flags.options);
    std::printf("%s", flags.json ? bench_json(result).c_str() : bench_table(result).c_str());
    return winning(codes_of(result));
  } catch (const suites::WrongBits& e) {
    std::fprintf(stderr, "lockstep: %s; nothing was written\n", e.what());
    return kDifference;
  }
}

}  // namespace

void add_bench(CLI::App& app, Chosen& chosen) {
  auto [bench, flags] =
      add_command(app, chosen, "bench", "Measure this binary, alone or in turns with another", run);
  auto& o = flags.options;
  o.command = chosen.command_line;
  bench.add_option("--db", o.db, "Database that takes every sample")->capture_default_str();
  bench.add_option("--rounds", o.rounds, "Samples of each timed series and binary (default: 20)")
      ->check(CLI::Range(1, 1000));
  bench.add_option("--series", o.pattern, "Only series with this text in their name");
  bench.add_option("--against", o.against, "Path of another lockstep, to be measured in turns with this one")
      ->check(CLI::ExistingFile);
  bench.add_flag("--shared", o.shared, "Only series that the other one has too");
  bench.add_option("--patience", o.patience, "Seconds that a measured process may take for one answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench.add_flag("--quick", o.quick, "2 rounds of short samples, to see that it runs");
  bench.add_flag("--no-instructions", o.no_instructions, "Do not count instructions under callgrind");
  bench.add_flag("--list", flags.list, "Print the series instead");
  bench.add_flag("--json", flags.json, "Print JSON");
  bench.add_flag("--serve-rounds", flags.serve,
                 "Answer requests on standard input, as a process that is measured in turns");
}

}  // namespace lockstep::program
