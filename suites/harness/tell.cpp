// SPDX-License-Identifier: Apache-2.0
#include "suites/harness/tell.h"

#include "engine/values/error.h"
#include "engine/values/shell.h"

namespace lockstep::suites {
namespace {

std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char ch : text) {
    out += ch;
    if (ch == '\n') out += "    ";
  }
  while (!out.empty() && (out.back() == ' ' || out.back() == '\n')) out.pop_back();
  return out + "\n";
}

}  // namespace

std::string replay_flags(const std::string& fault, const std::string& engine, const std::string& world,
                         int64_t ranks, const std::string& chaos) {
  return concat(fault.empty() ? "" : " --fault " + fault,
                engine == "lockstep" ? "" : " --engine " + shell_quoted(engine),
                world == "local" ? "" : " --world " + world, ranks > 0 ? concat(" --ranks ", ranks) : "",
                chaos.empty() ? "" : concat(" --chaos ", chaos));
}

std::string failure_text(const Planned& planned, const oracle::Case& c, const Outcome& outcome,
                         const std::string& flags) {
  const auto word = dashboard::name(verdict_of(outcome));
  const auto number = planned.index < 0 ? "a case" : concat("case ", planned.index);
  std::string text = concat(word, ": ", number, " of suite ", planned.suite->name, "\n");
  if (const auto* f = std::get_if<Failed>(&outcome)) text += concat("  bucket: ", f->bucket, "\n");
  if (c.mesh.size() > 0) {
    text += concat("  replay: lockstep replay ", shell_quoted(oracle::to_token(c)), flags, "\n  program:\n",
                   indented(oracle::describe(c)));
  }
  const auto explanation = explanation_of(outcome);
  return explanation.empty() ? text : text + "  explanation:\n" + indented(explanation);
}

}  // namespace lockstep::suites
