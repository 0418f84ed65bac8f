// SPDX-License-Identifier: Apache-2.0
#include "engine/nn/running.h"

#include <c10/util/Type.h>
#include <torch/csrc/autograd/graph_task.h>

#include <optional>

#include "engine/nn/module.h"
#include "engine/values/error.h"

namespace lockstep::nn {
namespace {

std::vector<Module*>& stack() {
  thread_local std::vector<Module*> modules;
  return modules;
}

std::optional<std::string> path_below(Module& outer, const Module& module) {
  for (const auto& [path, below] : outer.named_modules())
    if (below == &module) return path;
  return std::nullopt;
}

std::string path_of(Module& module, ActivityLog& log) {
  const auto& modules = running();
  for (auto outer = modules.rbegin(); outer != modules.rend(); ++outer) {
    if (*outer == &module) continue;
    const auto path = path_below(**outer, module);
    if (!path) continue;
    const auto& of = log.path_of(*outer);
    return concat(of.empty() ? class_name(**outer) : of, ".", *path);
  }
  // On the way back it runs again, within nothing; else its address may have been another's.
  const bool runs_again = torch::autograd::get_current_graph_task_id() != -1;
  const auto& known = log.path_of(&module);
  return known.empty() || !runs_again ? class_name(module) : known;
}

}  // namespace

const std::vector<Module*>& running() {
  return stack();
}

Running::Running(Module& module) {
  stack().push_back(&module);
}

Running::~Running() {
  stack().pop_back();
}

std::string class_name(const Module& module) {
  const auto full = c10::demangle(typeid(module).name());
  const auto scope = full.substr(0, full.find('<')).rfind("::");
  return scope == std::string::npos ? full : full.substr(scope + 2);
}

Activity activity_of(Module& module, ActivityLog& log) {
  const auto path = path_of(module, log);
  log.path_of(&module) = path;
  for (const auto& [name, parameter] : module.named_parameters())
    if (name.find('.') == std::string::npos) log.owns(parameter.unsafeGetTensorImpl(), path);
  Activity activity{.kind = ActivityKind::kModule, .name = path};
  activity.what = class_name(module);
  return activity;
}

}  // namespace lockstep::nn
