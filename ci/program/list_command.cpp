// SPDX-License-Identifier: Apache-2.0
// lockstep list: the suites and their laws, the planted faults, the operators with a rule.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ci/program/commands.h"
#include "dashboard/store/store.h"
#include "engine/ops/rules/table.h"
#include "engine/values/error.h"
#include "suites/core/facts.h"
#include "suites/core/suite.h"
#include "suites/faults/fault.h"
#include "suites/harness/coverage.h"
#include "suites/laws/sample_call.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

struct Flags {
  bool json = false, faults = false, ops = false, coverage = false;
  std::string rows;  // of a database
};

// Each as a line, and as JSON.
struct List {
  std::string text;
  Json json = Json::array();
  template <class... Parts>
  void add(const Json& object, const char* format, const Parts*... parts) {
    char line[1000];
    std::snprintf(line, sizeof line, format, parts...);
    text += line;
    json.push_back(object);
  }
};

constexpr int64_t kSamples = 12;  // of each op template, half of them with gradients

// What the rules offer to the generators' calls: the rows that no run of the database took in each of the
// ways, with the ways that are missing; all of them, where it took the row in none.
void list_rows(const std::string& db, List& all) {
  auto taken = suites::taken_rows(dashboard::Store::open_reader(db));
  const auto offered = suites::offered_rows(kSamples);
  int64_t met = 0;
  for (const auto& row : offered) {
    std::vector<std::string> never;
    for (const std::string way : suites::kWays)
      if (!taken[row].contains(way)) never.push_back(way);
    met += never.size() < std::size(suites::kWays);
    std::string text = row + ":";
    for (const auto& way : never) text += " " + way;
    if (!never.empty()) all.add({{"row", row}, {"never", never}}, "%s\n", text.c_str());
  }
  all.text += concat(met, " of ", offered.size(), " rows that the rules offer are taken in ", db, "\n");
}

int list(const Flags& flags) {
  List all;
  if (!flags.rows.empty()) {
    list_rows(flags.rows, all);
  } else if (flags.faults) {
    for (const auto part : {suites::faults(), suites::process_faults()})
      for (const auto& f : part)
        all.add({{"fault", f.name},
                 {"class", f.klass},
                 {"what", f.what},
                 {"suite", f.suite},
                 {"cases", f.cases},
                 {"ops", f.ops}},
                "%-28s %-7s %s\n", f.name, f.klass, f.what);
  } else if (flags.coverage) {
    for (const auto& name : suites::all_names()) all.add(name, "%s\n", name.c_str());
  } else if (flags.ops) {
    for (const auto& entry : op_table()) all.add(entry.name, "%s\n", std::string(entry.name).c_str());
  } else {
    for (const auto& s : suites::suites())
      all.add({{"suite", s.name},
               {"law", s.law},
               {"weight", s.weight},
               {"cases", s.limit == suites::kEndless ? Json() : Json(s.limit)}},
              "%-14s %s\n", s.name, s.law);
  }
  std::printf("%s", flags.json ? (all.json.dump(2) + "\n").c_str() : all.text.c_str());
  return 0;
}

}  // namespace

void add_list(CLI::App& app, Chosen& chosen) {
  auto [command, flags] = add_command(app, chosen, "list", "List the suites and their laws", list);
  command.add_flag("--faults", flags.faults, "List the planted faults instead");
  command.add_flag("--ops", flags.ops, "List the operators that have a rule instead");
  command.add_flag("--coverage", flags.coverage,
                   "List the labels, statements, refusals and arguments that runs can be asked for instead");
  command
      .add_option(
          "--rows", flags.rows,
          "List the rows of rules that no run of this database took, each with the ways (stood, cheapest, "
          "moved) in which it did not, instead")
      ->type_name("DB");
  command.add_flag("--json", flags.json, "Print JSON");
}

}  // namespace lockstep::program
