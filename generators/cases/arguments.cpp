// SPDX-License-Identifier: Apache-2.0
#include "generators/cases/arguments.h"

#include <algorithm>
#include <set>

#include "engine/values/error.h"
#include "generators/ops/ops.h"
#include "generators/program/vary.h"
#include "generators/random/random_ops.h"
#include "oracle/program/schema.h"

namespace lockstep::generators {
namespace {

bool counts_from_the_end(const oracle::Arg& arg) {
  if (const auto* dim = std::get_if<int64_t>(&arg)) return *dim < 0;
  const auto* dims = std::get_if<std::vector<int64_t>>(&arg);
  return dims != nullptr && std::any_of(dims->begin(), dims->end(), [](int64_t d) { return d < 0; });
}

std::string name_of(const std::string& op, size_t i, const char* how = "") {
  return concat(op, "(", oracle::find_operator(op).args[i].name, how, ")");
}

}  // namespace

std::vector<std::string> arguments(const oracle::Case& c) {
  std::set<std::string> names;
  for (const auto& call : c.program.calls) {
    if (oracle::is_own(call.op)) continue;
    for (const auto i : variable_arguments(call.op)) {
      if (may_stay_default(call.op, i) && differs_from_default(call, i)) names.insert(name_of(call.op, i));
      if (is_dimension(call.op, i) && counts_from_the_end(call.args.at(i)))
        names.insert(name_of(call.op, i, "<0"));
    }
  }
  return {names.begin(), names.end()};
}

std::vector<std::string> arguments_of(const std::string& op) {
  std::vector<std::string> names;
  if (oracle::is_own(op)) return names;
  for (const auto i : variable_arguments(op)) {
    if (may_stay_default(op, i)) names.push_back(name_of(op, i));
    if (is_dimension(op, i)) names.push_back(name_of(op, i, "<0"));
  }
  return names;
}

std::vector<std::string> all_arguments() {
  std::set<std::string> ops;
  for (const auto& candidate : op_templates()) ops.emplace(candidate.op);
  for (const auto& op : random_ops())
    if (std::string_view(op.name).starts_with("aten::")) ops.emplace(op.name);  // the others are of nn
  std::vector<std::string> all;
  for (const auto& op : ops)
    for (auto& name : arguments_of(op)) all.push_back(std::move(name));
  return all;
}

}  // namespace lockstep::generators
