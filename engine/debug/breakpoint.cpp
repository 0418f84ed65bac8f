// SPDX-License-Identifier: Apache-2.0
#include "engine/debug/breakpoint.h"

#include <algorithm>
#include <memory>

#include "engine/nn/running.h"
#include "engine/tensor/dtensor.h"
#include "engine/values/error.h"
#include "engine/values/text.h"

namespace lockstep {
namespace {

WorldPtr world_of(const nn::Named<at::Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors)
    if (tensor.defined() && is_dtensor(tensor)) return world(tensor);
  return nullptr;
}

// From the outermost.
std::vector<std::string> paths_of(const std::vector<nn::Module*>& modules) {
  std::vector<std::string> paths;
  for (auto* module : modules) {
    std::string path;
    for (const auto& [below, found] : modules.front()->named_modules())
      if (found == module) path = below;
    const auto type = nn::class_name(*module);
    paths.push_back(path.empty() ? type : concat(path, " (", type, ")"));
  }
  return paths;
}

void add_own(nn::Named<at::Tensor>& tensors, nn::Module& model) {
  for (auto& named : {model.named_parameters(), model.named_buffers()})
    tensors.insert(tensors.end(), named.begin(), named.end());
}

// @returns whether it is to stop again
bool stop(debug::Console& console, debug::Stopped stopped) {
  if (stopped.world == nullptr) stopped.world = world_of(stopped.tensors);
  const auto where = stopped.where;
  const auto go_on = console.ask(stopped);
  if (go_on == debug::GoOn::kQuit) throw QuitAtBreakpoint(concat("[breakpoint] quit, ", where));
  return go_on == debug::GoOn::kContinue;
}

}  // namespace

void breakpoint(nn::Named<at::Tensor> tensors, WorldPtr world) {
  thread_local bool stops = true;
  if (!stops) return;
  const auto& modules = nn::running();
  if (!modules.empty()) add_own(tensors, *modules.front());
  LOCKSTEP_CHECK(
      world != nullptr || world_of(tensors) != nullptr,
      "[breakpoint] no DTensor is given, and no module runs that has one, so that nothing says which ranks "
      "are to stop; write breakpoint({{\"x\", x}}), or give it a world");
  auto paths = modules.empty() ? std::vector<std::string>() : paths_of(modules);
  const auto where =
      paths.empty() ? std::string("at a breakpoint") : concat("at a breakpoint in ", paths.back());
  stops = stop(debug::terminal(), {where, std::move(tensors), std::move(paths), std::move(world)});
}

void check_break_at(nn::Module& model, const std::string& path) {
  std::vector<std::string> paths;
  for (const auto& [module, its] : model.modules_with_paths())
    paths.insert(paths.end(), its.begin(), its.end());
  if (std::find(paths.begin(), paths.end(), path) != paths.end()) return;
  std::erase(paths, "");  // the model's own
  throw Error(concat("[breakpoint] there is no module '", path, "'", did_you_mean(path, paths)));
}

void break_at(nn::Module& model, const std::string& path, debug::Console& console) {
  check_break_at(model, path);
  auto stops = std::make_shared<bool>(true);
  model.child(path).register_forward_pre_hook(
      [&model, &console, stops, path](nn::Module& module, nn::Tensors& inputs) {
        if (!*stops) return;
        nn::Named<at::Tensor> tensors;
        for (size_t i = 0; i < inputs.size(); ++i) tensors.emplace_back(concat("inputs.", i), inputs[i]);
        add_own(tensors, model);
        const auto type = nn::class_name(module);
        *stops = stop(console, {concat("before ", path.empty() ? type : concat(path, " (", type, ")")),
                                std::move(tensors), paths_of(nn::running()), nullptr});
      },
      "breakpoint");
}

}  // namespace lockstep
