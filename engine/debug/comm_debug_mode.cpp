// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/comm_debug_mode.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/debug/activity_text.h"
#include "engine/debug/report_file.h"
#include "engine/values/error.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;
using OfModule = CommDebugMode::OfModule;

constexpr const char* kName = "CommDebugMode";
constexpr const char* kGlobal = "Global";

bool is_collective(const Activity& a) {
  return a.kind == ActivityKind::kCollective;
}

// torch's own list.
bool is_trivial(const std::string& op) {
  constexpr std::string_view kTrivial[] = {"aten::detach",   "aten::t",          "aten::view",
                                           "aten::_to_copy", "aten::as_strided", "aten::transpose"};
  return std::find(std::begin(kTrivial), std::end(kTrivial), op.substr(0, op.find('.'))) !=
         std::end(kTrivial);
}

bool is_told(const Activity& a, int noise_level) {
  switch (a.kind) {
    case ActivityKind::kModule:
      return true;
    case ActivityKind::kOp:
      return noise_level >= (is_trivial(a.name) ? 3 : 2);
    case ActivityKind::kRedistribution:
    case ActivityKind::kCollective:
      break;
  }
  return noise_level >= 1;
}

void check_level(int noise_level) {
  LOCKSTEP_CHECK(noise_level >= 0 && noise_level <= 3, "[", kName, "] noise level ", noise_level,
                 "; there are 0, 1, 2 and 3");
}

// Whether a module is another one, or below it. All are below Global.
bool is_in(const std::string& module, const std::string& outer) {
  return outer == kGlobal || module == outer || module.starts_with(outer + ".");
}

std::string pass_text(const char* pass, const CommDebugMode::ByKind& counts, const std::string& indent) {
  if (counts.empty()) return "";
  auto text = concat(indent, pass, "\n");
  for (const auto& [kind, of] : counts)
    text += concat(indent, "  *", kind, ": ", of.calls, " (", of.bytes, " bytes)\n");
  return text;
}

Json json_of(const CommDebugMode::ByKind& counts) {
  auto all = Json::object();
  for (const auto& [kind, of] : counts) all[kind] = {{"calls", of.calls}, {"bytes", of.bytes}};
  return all;
}

// The module that stands there, with those below it, which follow it and are deeper. @post `next` is behind
// them
Json tree_of(const std::vector<OfModule>& modules, size_t& next) {
  const auto& own = modules[next++];
  Json tree = {{"fqn", own.fqn},
               {"module_type", own.module_type},
               {"collectives_forward", json_of(own.forward)},
               {"collectives_backward", json_of(own.backward)},
               {"children", Json::array()}};
  while (next < modules.size() && modules[next].depth > own.depth)
    tree["children"].push_back(tree_of(modules, next));
  return tree;
}

}  // namespace

std::map<std::string, int64_t> CommDebugMode::get_comm_counts() const {
  std::map<std::string, int64_t> counts;
  for (const auto& a : log_->all())
    if (is_collective(a)) ++counts[a.name];
  return counts;
}

int64_t CommDebugMode::get_total_counts() const {
  return std::count_if(log_->all().begin(), log_->all().end(), is_collective);
}

// Modules stand behind those that they are below, and before the next ones beside these.
std::vector<OfModule> CommDebugMode::get_comm_counts_by_module() const {
  std::vector<OfModule> modules{{kGlobal, "", 0, {}, {}}};
  for (const auto& a : log_->all()) {
    const auto is_it = [&](const OfModule& m) { return m.fqn == a.name; };
    if (a.kind != ActivityKind::kModule || std::any_of(modules.begin(), modules.end(), is_it)) continue;
    size_t outer = 0, depth = 0;
    for (size_t m = 0; m < modules.size(); ++m)
      if (is_in(a.name, modules[m].fqn) && modules[m].depth + 1 > depth)
        outer = m, depth = modules[m].depth + 1;
    size_t behind = outer + 1;
    while (behind < modules.size() && modules[behind].depth >= depth) ++behind;
    modules.insert(modules.begin() + static_cast<std::ptrdiff_t>(behind), {a.name, a.what, depth, {}, {}});
  }
  for (const auto& a : log_->all()) {
    if (!is_collective(a)) continue;
    for (auto& module : modules) {
      if (!is_in(a.module, module.fqn)) continue;
      auto& counts = (a.backward ? module.backward : module.forward)[a.name];
      ++counts.calls;
      counts.bytes += a.bytes;
    }
  }
  return modules;
}

std::string CommDebugMode::generate_comm_debug_tracing_table(int noise_level) const {
  check_level(noise_level);
  std::string text;
  for (const auto& module : get_comm_counts_by_module()) {
    const std::string indent(2 * module.depth, ' ');
    text += concat(indent, module.fqn, "\n");
    if (!module.module_type.empty()) text += concat(indent, "  *module type: ", module.module_type, "\n");
    text += pass_text("FORWARD PASS", module.forward, indent + "  ");
    text += pass_text("BACKWARD PASS", module.backward, indent + "  ");
  }
  if (noise_level == 0) return text;
  text += "\nIN ORDER\n";
  const auto& all = log_->all();
  std::vector<size_t> depths(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& a = all[i];
    const bool told = is_told(a, noise_level);
    const size_t own = a.within < 0 ? 1 : depths[static_cast<size_t>(a.within)];
    depths[i] = own + (told ? 1 : 0);
    if (!told) continue;
    text += concat(std::string(2 * own, ' '), debug::to_text(a));
    if (a.backward) text += concat(" | backward of ", a.module.empty() ? kGlobal : a.module);
    text += "\n";
  }
  return text;
}

std::string CommDebugMode::json_dump(int noise_level) const {
  check_level(noise_level);
  size_t next = 0;
  auto tree = tree_of(get_comm_counts_by_module(), next);
  auto operations = Json::array();
  for (const auto& a : log_->all())
    if (noise_level > 0 && is_told(a, noise_level)) operations.push_back(debug::to_json(a));
  tree["operations"] = std::move(operations);
  return tree.dump(1) + "\n";
}

void CommDebugMode::log_comm_debug_tracing_table_to_file(const std::string& file_name,
                                                         int noise_level) const {
  debug::write_text(kName, file_name, generate_comm_debug_tracing_table(noise_level));
}

void CommDebugMode::generate_json_dump(const std::string& file_name, int noise_level) const {
  debug::write_text(kName, file_name, json_dump(noise_level));
}

}  // namespace lockstep
