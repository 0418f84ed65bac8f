// SPDX-License-Identifier: Apache-2.0
// lockstep export, lockstep publish
#include <array>
#include <cstdio>
#include <utility>

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
constexpr std::array<std::pair<const char*, Render>, 6> kWhole = {{{"json", output::render_json},
                                                                   {"text", output::render_text},
                                                                   {"junit", output::render_junit},
                                                                   {"sarif", output::render_sarif},
                                                                   {"github", output::render_annotations},
                                                                   {"summary", output::render_summary}}};

using Stream = void (*)(const dashboard::Store&, const std::string&, const output::Sink&);
constexpr std::array<std::pair<const char*, Stream>, 3> kOfView = {{{"json", output::write_view_json},
                                                                    {"jsonl", output::write_view_jsonl},
                                                                    {"csv", output::write_view_csv}}};

template <class Table>
auto find(const Table& table, const std::string& format) -> decltype(table[0].second) {
  for (const auto& [name, function] : table)
    if (format == name) return function;
  return nullptr;
}

void write_view(const Flags& flags) {
  const Stream stream = find(kOfView, flags.format);
  LOCKSTEP_CHECK(stream != nullptr, "[export] --view goes with --format json, jsonl or csv, not ",
                 flags.format);
  const auto store = dashboard::Store::open_reader(flags.db);
  dashboard::OutputFile file(flags.output);
  stream(store, flags.view, [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
}

int run(const Flags& flags) {
  dashboard::check_output(flags.output, flags.db, "-o");
  if (!flags.view.empty()) {
    write_view(flags);
    return 0;
  }
  Render render = find(kWhole, flags.format);
  LOCKSTEP_CHECK(render != nullptr, "[export] --format ", flags.format,
                 " is of one view: pass --view, for example v_failures; the README of dashboard/ lists all");
  LOCKSTEP_CHECK(!flags.json || flags.format == "text", "[export] --json goes with --format text, not ",
                 flags.format);
  if (flags.json) render = output::render_counts_json;
  const auto store = dashboard::Store::open_reader(flags.db);
  dashboard::write_whole(flags.output, render(output::read_report_model(store)));
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Chosen& chosen) {
  auto flags = std::make_shared<Flags>();
  auto* command =
      app.add_subcommand("export", "Write what a database says in the form that another tool reads");
  command->add_option("db", flags->db, "Database")->required();
  command->add_option("--format", flags->format, "json, jsonl, csv, junit, sarif, github, summary, text")
      ->required()
      ->check(CLI::IsMember({"json", "jsonl", "csv", "junit", "sarif", "github", "summary", "text"}));
  command->add_option("--view", flags->view, "All rows of this view; json, jsonl, csv");
  command->add_option("-o,--output", flags->output, "File (default -, the standard output)");
  command->add_flag("--json", flags->json, "With --format text: the same counts as JSON");
  command->callback([&chosen, flags] { chosen.action = [flags] { return run(*flags); }; });
}

void add_publish(CLI::App& app, Chosen& chosen) {
  struct Publish {
    std::string db, copy;
    bool force = false;
  };
  auto flags = std::make_shared<Publish>();
  auto* command = app.add_subcommand(
      "publish", "Write a compact copy of a database for Datasette, Grafana, or an archive");
  command->add_option("db", flags->db, "Database")->required();
  command->add_option("-o,--output", flags->copy, "Copy")->required();
  command->add_flag("--force", flags->force, "Replace the copy if it is there");
  command->callback([&chosen, flags] {
    chosen.action = [flags] {
      const auto size = dashboard::publish(flags->db, flags->copy, flags->force);
      std::printf("%s: %ld bytes, %ld before\n", flags->copy.c_str(), size.copy, size.source);
      return 0;
    };
  });
}

}  // namespace lockstep::program
