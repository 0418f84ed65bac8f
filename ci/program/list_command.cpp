// SPDX-License-Identifier: Apache-2.0
// lockstep list: the suites and their laws, the planted faults, the operators with a rule.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "ci/program/commands.h"
#include "engine/ops/rules/table.h"
#include "suites/core/suite.h"
#include "suites/faults/fault.h"

namespace lockstep::program {
namespace {

using Json = nlohmann::json;

void list_suites(bool json) {
  Json all = Json::array();
  for (const auto& s : suites::suites()) {
    if (json)
      all.push_back({{"suite", s.name},
                     {"law", s.law},
                     {"weight", s.weight},
                     {"cases", s.limit == suites::kEndless ? Json() : Json(s.limit)}});
    else
      std::printf("%-14s %s\n", s.name, s.law);
  }
  if (json) std::printf("%s\n", all.dump(2).c_str());
}

void list_faults(bool json) {
  Json all = Json::array();
  for (const auto list : {suites::faults(), suites::process_faults()})
    for (const auto& f : list) {
      if (json)
        all.push_back({{"fault", f.name},
                       {"class", f.klass},
                       {"what", f.what},
                       {"suite", f.suite},
                       {"cases", f.cases},
                       {"ops", f.ops}});
      else
        std::printf("%-28s %-7s %s\n", f.name, f.klass, f.what);
    }
  if (json) std::printf("%s\n", all.dump(2).c_str());
}

void list_ops(bool json) {
  Json all = Json::array();
  for (const auto& entry : op_table()) {
    if (json)
      all.push_back(std::string(entry.name));
    else
      std::printf("%s\n", std::string(entry.name).c_str());
  }
  if (json) std::printf("%s\n", all.dump(2).c_str());
}

}  // namespace

void add_list(CLI::App& app, Chosen& chosen) {
  struct Flags {
    bool json = false, faults = false, ops = false;
  };
  auto flags = std::make_shared<Flags>();
  auto* list = app.add_subcommand("list", "List the suites and their laws");
  list->add_flag("--faults", flags->faults, "List the planted faults instead");
  list->add_flag("--ops", flags->ops, "List the operators that have a rule instead");
  list->add_flag("--json", flags->json, "Print JSON");
  list->callback([&chosen, flags] {
    chosen.json = flags->json;
    chosen.action = [flags] {
      if (flags->faults)
        list_faults(flags->json);
      else if (flags->ops)
        list_ops(flags->json);
      else
        list_suites(flags->json);
      return 0;
    };
  });
}

}  // namespace lockstep::program
