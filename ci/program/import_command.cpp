// SPDX-License-Identifier: Apache-2.0
// lockstep curves import REFERENCE CANDIDATE: loss curves of others, compared and recorded like our own.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "ci/curves/compare.h"
#include "ci/curves/json_line.h"
#include "ci/curves/localize.h"
#include "ci/curves/read.h"
#include "ci/curves/store_curves.h"
#include "ci/program/commands.h"
#include "dashboard/report/report.h"
#include "dashboard/store/output_file.h"
#include "dashboard/store/store.h"
#include "engine/values/error.h"
#include "engine/values/exit_code.h"
#include "suites/harness/environment.h"

namespace lockstep::program {
namespace {

struct Flags {
  std::string reference, candidate, format = "auto", round_trip, db = "lockstep.db", report;
  std::vector<std::string> names, facts, environments, hashes;
  std::optional<int64_t> rank;
  std::optional<int> decimals;
  bool json = false;
  std::string command;
};

// "[side.]name=value": for one side, or without it for both.
struct Assignment {
  bool reference = true, candidate = true;
  std::string name, value;
};

Assignment parse_assignment(const std::string& text, const char* option, const char* example) {
  const auto equals = text.find('=');
  LOCKSTEP_CHECK(equals != std::string::npos && equals > 0 && equals + 1 < text.size(), "[curves] ", option,
                 " '", text, "' is no name and value; write for example ", example);
  Assignment a{.name = text.substr(0, equals), .value = text.substr(equals + 1)};
  for (const std::string side : {"reference", "candidate"})
    if (a.name.starts_with(side + ".")) {
      a.name = a.name.substr(side.size() + 1);
      (side == "reference" ? a.candidate : a.reference) = false;
    }
  return a;
}

curves::ReadOptions options_of(const Flags& flags, bool reference) {
  curves::ReadOptions options{.format = flags.format, .round_trip = flags.round_trip, .rank = flags.rank};
  for (const auto& text : flags.names) {
    const auto a = parse_assignment(text, "--tag", "--tag loss=train/loss");
    LOCKSTEP_CHECK(
        a.name == "step" || a.name == "loss" || a.name == "grad_norm", "[curves] --tag '", text,
        "' names no quantity; write step=, loss= or grad_norm=, with reference. or candidate. before it "
        "for one side");
    if (reference ? a.reference : a.candidate)
      (a.name == "step" ? options.step : a.name == "loss" ? options.loss : options.grad_norm) = a.value;
  }
  return options;
}

void add_environment(curves::Log& log, const Flags& flags, bool reference) {
  for (const auto& text : flags.environments) {
    const auto a = parse_assignment(text, "--environment", "--environment candidate=env.json");
    LOCKSTEP_CHECK(a.name == "reference" || a.name == "candidate", "[curves] --environment '", text,
                   "' names no side; write reference=FILE or candidate=FILE");
    if ((a.name == "reference") != reference) continue;
    std::ifstream in(a.value, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(in)), {});
    const auto object = curves::parse_json_line(content);
    LOCKSTEP_CHECK(in && object, "[curves] ", a.value,
                   " is no JSON object; write names and values: {\"gpu\":\"H100\"}");
    for (const auto& [name, value] : object->items()) log.environment[name] = curves::plain_text(value);
  }
  for (const auto& text : flags.facts) {
    const auto a = parse_assignment(text, "--fact", "--fact candidate.gpu=H100");
    if (reference ? a.reference : a.candidate) log.environment[a.name] = a.value;
  }
}

struct Found {
  std::string text;
  nlohmann::json json = nlohmann::json::object();
  std::set<int> codes;
};

void compare_curves(Found& found, const curves::Pair& pair, const std::string& run_id,
                    dashboard::Recorder& recorder) {
  const auto comparison = curves::compare(pair);
  curves::record(pair, comparison, run_id, recorder);
  found.text += curves::text_of(pair, comparison);
  found.json["curves"] = curves::json_of(pair, comparison);
  if (!curves::equal(comparison)) found.codes.insert(comparison.steps == 0 ? kNotMeasured : kDifference);
}

void compare_hashes(Found& found, const curves::Localized& l, dashboard::Recorder& recorder) {
  recorder.record(l.row);
  recorder.record(dashboard::Gate{.rule = "hashes of " + l.row.curve + " against " + l.row.reference,
                                  .required = "all digests agree",
                                  .got = l.text,
                                  .passed = l.steps > 0 && !l.row.step});
  for (const auto& note : l.notes) recorder.record_fact("note on the hashes", note);
  found.text += concat("hashes: ", l.text, "\n");
  for (const auto& note : l.notes) found.text += concat("  note: ", note, "\n");
  const auto number = [](std::optional<int64_t> n) {
    return n ? nlohmann::json(std::to_string(*n)) : nlohmann::json();
  };
  found.json["hashes"] = {{"compared", l.row.compared},
                          {"steps", l.steps},
                          {"step", number(l.row.step)},
                          {"position", number(l.row.position)},
                          {"op", l.row.op},
                          {"rank", l.row.rank},
                          {"what", l.row.what},
                          {"expected", l.row.expected},
                          {"got", l.row.got},
                          {"text", l.text},
                          {"notes", l.notes}};
  if (l.steps == 0 || l.row.step) found.codes.insert(l.steps == 0 ? kNotMeasured : kDifference);
}

// Everything is read before the store is opened: a mistake in an input leaves no trace.
int import(const Flags& flags) {
  dashboard::check_output(flags.report, flags.db, "--report");
  const bool with_curves = !flags.reference.empty();
  LOCKSTEP_CHECK(with_curves || !flags.hashes.empty(),
                 "[curves] nothing to import; give a reference and a candidate, or --hashes with two logs");
  LOCKSTEP_CHECK(flags.reference.empty() == flags.candidate.empty(), "[curves] '", flags.reference,
                 "' has nothing beside it; give a reference and a candidate");
  std::optional<curves::Pair> pair;
  if (with_curves) {
    const auto side = [&](const std::string& path, bool reference) {
      auto log = curves::read(path, options_of(flags, reference));
      add_environment(log, flags, reference);
      return log;
    };
    auto reference = side(flags.reference, true);
    pair = curves::paired(std::move(reference), side(flags.candidate, false), flags.decimals);
  }
  curves::Localized localized;
  if (!flags.hashes.empty()) localized = curves::localize(flags.hashes[0], flags.hashes[1]);

  auto store = dashboard::Store::open_writer(flags.db);
  const auto run = suites::run_without_plan(flags.command, "imported");
  dashboard::Recorder recorder(store, run, "import");
  Found found;
  if (pair) compare_curves(found, *pair, run.id, recorder);
  if (!flags.hashes.empty()) compare_hashes(found, localized, recorder);
  const int code = winning(found.codes);
  recorder.finish("finished", code);
  found.json["run"] = run.id;
  found.json["db"] = flags.db;
  found.json["report"] = flags.report;
  found.json["exit_code"] = code;
  found.json["exit_codes"] = found.codes.empty() ? std::set{0} : found.codes;
  found.json["meaning"] = meaning(code);
  const auto text = flags.json
                        ? found.json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
                        : found.text;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!flags.report.empty()) dashboard::write_report(store, flags.report);
  return code;
}

}  // namespace

void add_import(CLI::App& curves_app, Chosen& chosen) {
  auto [app, flags] = add_command(curves_app, chosen, "import",
                                  "Compare recorded curves of any program (JSONL, CSV, "
                                  "torchtitan), and logs of digests",
                                  import);
  flags.command = chosen.command_line;
  app.add_option("reference", flags.reference, "The run to compare with: a file");
  app.add_option("candidate", flags.candidate, "The run to judge");
  app.add_option("--format", flags.format, "auto (default), jsonl, csv or torchtitan");
  app.add_option(
         "--tag,--column,--key", flags.names,
         "Where a quantity stands: loss=NAME, grad_norm=NAME, step=NAME; candidate.loss=NAME for one side")
      ->allow_extra_args(false);
  app.add_option("--round-trip", flags.round_trip,
                 "The decimal numbers read back as the same bits of f32 or f64: compare bits")
      ->check(CLI::IsMember({"f32", "f64"}));
  app.add_option("--decimals", flags.decimals, "Round both sides to so many digits after the point first")
      ->check(CLI::Range(0, 17));
  app.add_option("--rank", flags.rank, "torchtitan: whose lines count (default: the lowest)");
  app.add_option("--fact", flags.facts, "About the environment: candidate.gpu=H100, or torch=2.11 for both")
      ->allow_extra_args(false);
  app.add_option("--environment", flags.environments,
                 "The same from a JSON file: reference=FILE, candidate=FILE")
      ->allow_extra_args(false);
  app.add_option("--hashes", flags.hashes, "Logs of digests, reference and candidate: where they first part")
      ->expected(2);
  app.add_option("--db", flags.db, "Database (default lockstep.db)");
  app.add_option("--report", flags.report, "Report to write (default none)");
  app.add_flag("--json", flags.json, "Print JSON");
}

}  // namespace lockstep::program
