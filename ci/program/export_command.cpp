// SPDX-License-Identifier: Apache-2.0
// lockstep export, lockstep publish
#include <cstdio>
#include <map>

#include "ci/output/output.h"
#include "ci/program/commands.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/publish.h"
#include "engine/values/error.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string db, format, view, output = "-";
  bool json = false;
};

using Render = std::string (*)(const output::ReportModel&);
const std::map<std::string, Render> kWhole = {
    {"json", output::render_json},          {"text", output::render_text},
    {"junit", output::render_junit},        {"sarif", output::render_sarif},
    {"github", output::render_annotations}, {"summary", output::render_summary}};

using Stream = void (*)(const dashboard::Store&, const std::string&, const output::Sink&);
const std::map<std::string, Stream> kOfView = {
    {"json", output::write_view_json}, {"jsonl", output::write_view_jsonl}, {"csv", output::write_view_csv}};

void write_view(const Flags& flags) {
  LOCKSTEP_CHECK(kOfView.contains(flags.format),
                 "[export] --view goes with --format json, jsonl or csv, not ", flags.format);
  const auto store = dashboard::Store::open_reader(flags.db);
  dashboard::OutputFile file(flags.output);
  kOfView.at(flags.format)(store, flags.view, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

int run(const Flags& flags) {
  dashboard::check_output(flags.output, flags.db, "-o");
  if (!flags.view.empty()) {
    write_view(flags);
    return 0;
  }
  LOCKSTEP_CHECK(kWhole.contains(flags.format), "[export] --format ", flags.format,
                 " is of one view: pass --view, for example v_failures; the README of dashboard/ lists all");
  LOCKSTEP_CHECK(!flags.json || flags.format == "text", "[export] --json goes with --format text, not ",
                 flags.format);
  const auto render = flags.json ? output::render_counts_json : kWhole.at(flags.format);
  const auto store = dashboard::Store::open_reader(flags.db);
  dashboard::write_whole(flags.output, render(output::read_report_model(store)));
  return 0;
}

struct PublishFlags {
  std::string db, copy;
  bool force = false, for_gate = false;
};

int publish(const PublishFlags& flags) {
  const auto size = dashboard::publish(flags.db, flags.copy, flags.force,
                                       flags.for_gate ? dashboard::Copy::kForGate : dashboard::Copy::kWhole);
  std::printf("%s: %ld bytes, %ld before\n", flags.copy.c_str(), size.copy, size.source);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Chosen& chosen) {
  auto [command, flags] = add_command(app, chosen, "export",
                                      "Write what a database says in the form that another tool reads", run);
  command.add_option("db", flags.db, "Database")->required();
  command.add_option("--format", flags.format, "json, jsonl, csv, junit, sarif, github, summary, text")
      ->required()
      ->check(CLI::IsMember({"json", "jsonl", "csv", "junit", "sarif", "github", "summary", "text"}));
  command.add_option("--view", flags.view, "All rows of this view; json, jsonl, csv");
  command.add_option("-o,--output", flags.output, "File (default -, the standard output)");
  command.add_flag("--json", flags.json, "With --format text: the same counts as JSON");
}

void add_publish(CLI::App& app, Chosen& chosen) {
  auto [command, flags] =
      add_command(app, chosen, "publish",
                  "Write a compact copy of a database for Datasette, Grafana, or an archive", publish);
  command.add_option("db", flags.db, "Database")->required();
  command.add_option("-o,--output", flags.copy, "Copy")->required();
  command.add_flag("--force", flags.force, "Replace the copy if it is there");
  command.add_flag("--for-gate", flags.for_gate,
                   "A baseline for `lockstep gate` and `run --baseline`: failures, counts, and of cases that "
                   "passed key and verdict alone");
}

}  // namespace lockstep::program
